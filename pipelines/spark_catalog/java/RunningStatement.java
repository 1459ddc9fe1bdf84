package penstock.spark;

import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.UnsetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** What the statement that runs says, and Spark does not tell a catalog. */
class RunningStatement {
    /** Whether it is UNSET TBLPROPERTIES IF EXISTS. */
    static boolean saysIfExists() {
        LogicalPlan plan = plan();
        return plan instanceof UnsetTableProperties && ((UnsetTableProperties) plan).ifExists();
    }

    /** Whether it is an ALTER TABLE. Declarative pipelines of Spark change their tables without a statement. */
    static boolean alters() {
        return plan() instanceof AlterTableCommand;
    }

    /** Whether it is ANALYZE TABLE, and not EXPLAIN of one. */
    static boolean analyzes() {
        LogicalPlan plan = plan();
        return plan instanceof AnalyzeTable || plan instanceof AnalyzeColumn;
    }

    /** Whether it makes a table with ROW FORMAT or STORED AS: alone, ROW FORMAT DELIMITED gives the table no property. */
    static boolean saysRowFormat() {
        TableSpecBase table = table(plan());
        return table != null && table.serde().isDefined();
    }

    /**
     * The snapshot at which the running query reads a table whose newest rows it reads, the oldest one if it reads
     * several; null if it does not read them.
     */
    static String snapshotReadOf(String table) {
        QueryExecution running = running();
        return running == null ? null : oldest(running.optimizedPlan(), table, null);
    }

    /**
     * The snapshot in which a running MERGE looks for rows, to insert those that its table does not have; or null.
     * For Spark it is an append. Another INSERT resolves a table that it reads apart from the one that it writes to.
     */
    static String snapshotOfMerge(String table) {
        QueryExecution running = running();
        LogicalPlan plan = running == null ? null : running.optimizedPlan();
        if (!(plan instanceof V2WriteCommand)) return null;
        return withoutRowsOf(plan, table, (LogicalPlan) ((V2WriteCommand) plan).table());
    }

    private static String withoutRowsOf(LogicalPlan plan, String table, LogicalPlan written) {
        boolean anti = plan instanceof Join && ((Join) plan).joinType().sql().equals("LEFT ANTI");
        LogicalPlan right = anti ? ((Join) plan).right() : null;
        String found = anti && reads(right, written) ? oldest(right, table, null) : null;
        scala.collection.immutable.Seq below = plan.children();
        for (int i = 0; i < below.size() && found == null; i++) found = withoutRowsOf((LogicalPlan) below.apply(i), table, written);
        return found;
    }

    private static boolean reads(LogicalPlan plan, LogicalPlan relation) {
        LogicalPlan read = plan instanceof DataSourceV2ScanRelation ? ((DataSourceV2ScanRelation) plan).relation() : plan;
        if (read instanceof DataSourceV2Relation && read.outputSet().equals(relation.outputSet())) return true;
        scala.collection.immutable.Seq below = plan.children();
        boolean found = false;
        for (int i = 0; i < below.size() && !found; i++) found = reads((LogicalPlan) below.apply(i), relation);
        return found;
    }

    private static String oldest(LogicalPlan plan, String table, String found) {
        LogicalPlan read = plan instanceof DataSourceV2ScanRelation ? ((DataSourceV2ScanRelation) plan).relation() : plan;
        if (read instanceof DataSourceV2Relation) found = older((DataSourceV2Relation) read, table, found);
        scala.collection.immutable.Seq below = plan.children();
        for (int i = 0; i < below.size(); i++) found = oldest((LogicalPlan) below.apply(i), table, found);
        scala.collection.immutable.Seq subqueries = plan.subqueries();
        for (int i = 0; i < subqueries.size(); i++) found = oldest((LogicalPlan) subqueries.apply(i), table, found);
        return found;
    }

    private static String older(DataSourceV2Relation relation, String table, String found) {
        if (!(relation.table() instanceof PenstockTable)) return found;
        PenstockTable read = (PenstockTable) relation.table();
        String version = read.branched(relation.options()).equalsIgnoreCase(table) ? read.version() : null;
        if (version == null) return found;
        return found == null || Long.parseLong(version) < Long.parseLong(found) ? version : found;
    }

    private static TableSpecBase table(LogicalPlan plan) {
        if (plan instanceof CreateTable) return ((CreateTable) plan).tableSpec();
        if (plan instanceof CreateTableAsSelect) return ((CreateTableAsSelect) plan).tableSpec();
        if (plan instanceof ReplaceTable) return ((ReplaceTable) plan).tableSpec();
        return plan instanceof ReplaceTableAsSelect ? ((ReplaceTableAsSelect) plan).tableSpec() : null;
    }

    private static LogicalPlan plan() {
        QueryExecution running = running();
        return running == null ? null : running.logical();
    }

    private static QueryExecution running() {
        String id = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        return id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    }
}
