package penstock.spark;

import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.UnsetTableProperties;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;

/** What the statement that runs says, and Spark does not tell a catalog. */
class RunningStatement {
    /** Whether it is UNSET TBLPROPERTIES IF EXISTS. */
    static boolean saysIfExists() {
        LogicalPlan plan = plan();
        return plan instanceof UnsetTableProperties && ((UnsetTableProperties) plan).ifExists();
    }

    /** Whether it makes a table with ROW FORMAT or STORED AS: alone, ROW FORMAT DELIMITED gives the table no property. */
    static boolean saysRowFormat() {
        TableSpecBase table = table(plan());
        return table != null && table.serde().isDefined();
    }

    private static TableSpecBase table(LogicalPlan plan) {
        if (plan instanceof CreateTable) return ((CreateTable) plan).tableSpec();
        if (plan instanceof CreateTableAsSelect) return ((CreateTableAsSelect) plan).tableSpec();
        if (plan instanceof ReplaceTable) return ((ReplaceTable) plan).tableSpec();
        return plan instanceof ReplaceTableAsSelect ? ((ReplaceTableAsSelect) plan).tableSpec() : null;
    }

    private static LogicalPlan plan() {
        String id = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        QueryExecution running = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
        return running == null ? null : running.logical();
    }
}
