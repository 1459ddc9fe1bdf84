package penstock.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTables;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RepairTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;

/** Runs ANALYZE TABLE of this catalog's tables, which Spark has for its own tables only, as CALL sys.analyze does. */
class TableStatements extends Rule {
    public TreeNode apply(TreeNode plan) {
        if (plan instanceof AnalyzeTable) return analyzed((AnalyzeTable) plan);
        if (plan instanceof AnalyzeColumn) return analyzed((AnalyzeColumn) plan);
        if (plan instanceof AnalyzeTables && isOurs(((AnalyzeTables) plan).child())) {
            Request.fail("ANALYZE TABLES is not supported\n  to repair: ANALYZE TABLE t COMPUTE STATISTICS  for each table",
                null);
        }
        if (plan instanceof RepairTable && ours(((RepairTable) plan).child()) != null) {
            Request.fail("MSCK REPAIR TABLE has nothing to do: partitions are those of the rows\n  to repair: remove it; "
                + "CALL sys.repair('database.table') enters a table into a Hive metastore", null);
        }
        return plan;
    }

    private static TreeNode analyzed(AnalyzeTable plan) {
        ResolvedTable table = ours(plan.child());
        if (table == null) return plan;
        if (!plan.partitionSpec().isEmpty() || plan.noScan()) {
            Request.fail("ANALYZE TABLE has the statistics of the whole table, with its rows\n  to repair: remove "
                + (plan.noScan() ? "NOSCAN" : "PARTITION"), null);
        }
        return run(table, null);
    }

    private static TreeNode analyzed(AnalyzeColumn plan) {
        ResolvedTable table = ours(plan.child());
        if (table == null) return plan;
        if (plan.allColumns()) return run(table, null);
        // As JSON: names may contain commas.
        ArrayNode columns = Request.JSON.createArrayNode();
        Seq names = (Seq) plan.columnNames().get();
        for (int i = 0; i < names.size(); i++) columns.add(spelt(table, (String) names.apply(i)));
        return run(table, columns.toString());
    }

    /** The name as the table spells it, which has no other one that differs in case only. */
    private static String spelt(ResolvedTable table, String name) {
        org.apache.spark.sql.connector.catalog.Column[] known = table.table().columns();
        String found = null;
        for (int i = 0; i < known.length; i++) {
            if (known[i].name().equals(name)) return name;
            if (known[i].name().equalsIgnoreCase(name)) found = found == null ? known[i].name() : name;
        }
        return found == null ? name : found;
    }

    private static TreeNode run(ResolvedTable table, String columns) {
        Identifier name = table.identifier();
        String full = Request.quoted(String.join(".", name.namespace())) + "." + Request.quoted(name.name());
        PenstockCatalog catalog = (PenstockCatalog) table.catalog();
        PenstockProcedure procedure = (PenstockProcedure) catalog.loadProcedure(Identifier.of(new String[] {"sys"}, "analyze"));
        Object[] values = {UTF8String.fromString(full), columns == null ? null : UTF8String.fromString(columns)};
        if (RunningStatement.analyzes()) procedure.call(new GenericInternalRow(values));
        Seq none = scala.collection.immutable.Nil$.MODULE$;
        return new LocalRelation(none, none, false, Option.empty());
    }

    private static boolean isOurs(LogicalPlan plan) {
        return plan instanceof ResolvedNamespace && ((ResolvedNamespace) plan).catalog() instanceof PenstockCatalog;
    }

    private static ResolvedTable ours(LogicalPlan plan) {
        if (!(plan instanceof ResolvedTable)) return null;
        return ((ResolvedTable) plan).catalog() instanceof PenstockCatalog ? (ResolvedTable) plan : null;
    }
}
