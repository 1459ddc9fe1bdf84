package penstock.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;

/** A change of ALTER TABLE as JSON. */
class TableChanges {
    static ObjectNode described(TableChange given) {
        ObjectNode node = Request.JSON.createObjectNode();
        node.put("kind", given.getClass().getSimpleName());
        if (given instanceof TableChange.SetProperty) {
            node.put("key", ((TableChange.SetProperty) given).property());
            node.put("value", ((TableChange.SetProperty) given).value());
        } else if (given instanceof TableChange.RemoveProperty) {
            node.put("key", ((TableChange.RemoveProperty) given).property());
            node.put("if_exists", RunningStatement.saysIfExists());
        } else if (given instanceof TableChange.ColumnChange) {
            ArrayNode name = node.putArray("name");
            String[] parts = ((TableChange.ColumnChange) given).fieldNames();
            for (int i = 0; i < parts.length; i++) name.add(parts[i]);
            describeColumn(node, given);
        }
        return node;
    }

    @SuppressWarnings("deprecation")
    private static void describeColumn(ObjectNode node, TableChange given) {
        if (given instanceof TableChange.AddColumn) {
            TableChange.AddColumn add = (TableChange.AddColumn) given;
            node.put("type", add.dataType().json());
            node.put("nullable", add.isNullable());
            node.put("comment", add.comment());
            if (add.defaultValue() != null) node.put("default", sql(add.defaultValue()));
            describePosition(node, add.position());
        } else if (given instanceof TableChange.RenameColumn) {
            node.put("to", ((TableChange.RenameColumn) given).newName());
        } else if (given instanceof TableChange.UpdateColumnType) {
            node.put("type", ((TableChange.UpdateColumnType) given).newDataType().json());
        } else if (given instanceof TableChange.UpdateColumnNullability) {
            node.put("nullable", ((TableChange.UpdateColumnNullability) given).nullable());
        } else if (given instanceof TableChange.UpdateColumnComment) {
            node.put("comment", ((TableChange.UpdateColumnComment) given).newComment());
        } else if (given instanceof TableChange.UpdateColumnPosition) {
            describePosition(node, ((TableChange.UpdateColumnPosition) given).position());
        } else if (given instanceof TableChange.UpdateColumnDefaultValue) {
            node.put("default", ((TableChange.UpdateColumnDefaultValue) given).newDefaultValue());
        }
    }

    // The class is visible only in its package, so the compiler refuses a direct call.
    private static String sql(ColumnDefaultValue value) {
        try {
            java.lang.reflect.Method method = value.getClass().getMethod("getSql", new Class[0]);
            method.setAccessible(true);
            return (String) method.invoke(value, new Object[0]);
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException(absent);
        }
    }

    private static void describePosition(ObjectNode node, TableChange.ColumnPosition position) {
        if (position instanceof TableChange.First) node.put("first", true);
        if (position instanceof TableChange.After) node.put("after", ((TableChange.After) position).column());
    }
}
