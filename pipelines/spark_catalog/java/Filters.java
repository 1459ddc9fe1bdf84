package penstock.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;

/** A condition of DELETE as JSON, or null if it has another form. */
class Filters {
    static ObjectNode described(Filter given) {
        ObjectNode node = Request.JSON.createObjectNode();
        node.put("kind", given.getClass().getSimpleName());
        if (given instanceof AlwaysTrue) return node;
        if (given instanceof And) return both(node, ((And) given).left(), ((And) given).right());
        if (given instanceof Or) return both(node, ((Or) given).left(), ((Or) given).right());
        if (given instanceof Not) {
            ObjectNode child = described(((Not) given).child());
            if (child == null) return null;
            node.set("child", child);
            return node;
        }
        if (given instanceof EqualTo) return compared(node, ((EqualTo) given).attribute(), ((EqualTo) given).value());
        if (given instanceof EqualNullSafe) return compared(node, ((EqualNullSafe) given).attribute(), ((EqualNullSafe) given).value());
        if (given instanceof GreaterThan) return compared(node, ((GreaterThan) given).attribute(), ((GreaterThan) given).value());
        if (given instanceof GreaterThanOrEqual) return compared(node, ((GreaterThanOrEqual) given).attribute(), ((GreaterThanOrEqual) given).value());
        if (given instanceof LessThan) return compared(node, ((LessThan) given).attribute(), ((LessThan) given).value());
        if (given instanceof LessThanOrEqual) return compared(node, ((LessThanOrEqual) given).attribute(), ((LessThanOrEqual) given).value());
        if (given instanceof IsNull) return compared(node, ((IsNull) given).attribute(), null);
        if (given instanceof IsNotNull) return compared(node, ((IsNotNull) given).attribute(), null);
        if (given instanceof In) {
            ArrayNode values = node.putArray("values");
            Object[] all = ((In) given).values();
            for (int i = 0; i < all.length; i++) values.add(all[i] == null ? null : PartitionValues.text(all[i]));
            node.put("column", Request.unquoted(((In) given).attribute()));
            return node;
        }
        return null;
    }

    private static ObjectNode both(ObjectNode node, Filter left, Filter right) {
        ObjectNode one = described(left), other = described(right);
        if (one == null || other == null) return null;
        node.set("left", one);
        node.set("right", other);
        return node;
    }

    private static ObjectNode compared(ObjectNode node, String column, Object value) {
        node.put("column", Request.unquoted(column));
        node.put("value", value == null ? null : PartitionValues.text(value));
        return node;
    }
}
