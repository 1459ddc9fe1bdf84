package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;

/** sys.max_pt('t'): Spark computes it once, before it plans a query, because the name of the table is a literal. */
class NewestPartition implements UnboundFunction, ScalarFunction {
    static final String NAME = "max_pt";
    /** Absent in tasks, to which the function is sent only if the name of the table is no literal. */
    private final transient PenstockCatalog catalog;
    /** Chosen when a query is analyzed: a view keeps its own, and Spark plans a cached query in another session. */
    private final String database;

    NewestPartition(PenstockCatalog catalog) {
        this.catalog = catalog;
        database = catalog.analyzedDatabase();
    }

    public String name() { return NAME; }

    public String canonicalName() { return "penstock." + NAME; }

    public String description() { return "the greatest value of the first partition column"; }

    public BoundFunction bind(StructType input) {
        if (input.size() != 1) throw new UnsupportedOperationException("write it as  sys.max_pt('database.table')");
        return this;
    }

    public DataType[] inputTypes() { return new DataType[] {DataTypes.StringType}; }

    public DataType resultType() { return DataTypes.StringType; }

    static void refuseOther(String name) {
        boolean isOfBlobs = name.toLowerCase(Locale.ROOT).contains("descriptor");
        Request.fail("there is no function sys." + name + (isOfBlobs ? ": tables have no BLOB columns" : "") + "\n  to repair: "
            + (isOfBlobs ? "store the path of a file as STRING" : "sys.max_pt('database.table') is the only one of the catalog; "
            + "CREATE TEMPORARY FUNCTION makes others"), null);
    }

    static void refuseName() {
        Request.fail("sys.max_pt needs the name of a table as a literal\n  to repair: sys.max_pt('database.table')", null);
    }

    public Object produceResult(InternalRow row) {
        if (catalog == null || row.isNullAt(0)) refuseName();
        Request request = catalog.request("newest_partition").with("database", database);
        JsonNode value = request.with("table", row.getUTF8String(0).toString()).answer();
        return value.isNull() ? null : UTF8String.fromString(value.asText());
    }
}

/** Refuses sys.max_pt of a column when a query is planned; otherwise the error is that of a task, behind its whole stack. */
class LiteralTableNames extends Rule {
    public TreeNode apply(TreeNode plan) {
        check(plan);
        return plan;
    }

    private static void check(TreeNode node) {
        if (node instanceof ApplyFunctionExpression) {
            ApplyFunctionExpression call = (ApplyFunctionExpression) node;
            if (call.function() instanceof NewestPartition && !call.foldable()) NewestPartition.refuseName();
        }
        checkAll(node.children());
        if (node instanceof QueryPlan) checkAll(((QueryPlan) node).expressions());
    }

    private static void checkAll(Seq nodes) {
        for (int i = 0; i < nodes.size(); i++) check((TreeNode) nodes.apply(i));
    }
}
