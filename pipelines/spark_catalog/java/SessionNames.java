package penstock.spark;

import java.util.Locale;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Refuses statements on names of Spark's own catalog that would change its entry, and no table. */
public class SessionNames extends Rule {
    public TreeNode apply(TreeNode plan) {
        check(plan);
        return plan;
    }

    static void check(Object plan) {
        if (plan instanceof AlterTableCommand) checkAltered(((AlterTableCommand) plan).table());
        if (plan instanceof CreateTable) {
            CreateTable made = (CreateTable) plan;
            // Without columns, Spark asks the format for the columns of the existing table.
            if (!made.columns().isEmpty()) checkCreated("CREATE TABLE with columns", made, made.tableSpec());
        }
        if (plan instanceof CreateTableAsSelect) {
            checkCreated("CREATE TABLE AS", (V2CreateTablePlan) plan, ((CreateTableAsSelect) plan).tableSpec());
        }
        if (plan instanceof ReplaceTable) {
            checkCreated("REPLACE TABLE", (V2CreateTablePlan) plan, ((ReplaceTable) plan).tableSpec());
        }
        if (plan instanceof ReplaceTableAsSelect) {
            checkCreated("REPLACE TABLE AS", (V2CreateTablePlan) plan, ((ReplaceTableAsSelect) plan).tableSpec());
        }
    }

    private static void checkCreated(String statement, V2CreateTablePlan plan, TableSpecBase spec) {
        if (!(plan.name() instanceof ResolvedIdentifier) || spec.provider().isEmpty()) return;
        ResolvedIdentifier name = (ResolvedIdentifier) plan.name();
        String format = (String) spec.provider().get();
        if (!isOfSpark(name.catalog()) || !isOurs(format)) return;
        throw new UnsupportedOperationException(statement + " in Spark's own catalog creates an entry there, but no table: "
            + text(name.catalog(), name.identifier()) + " was not created\nto repair: CREATE TABLE lake.db.t (...) in a catalog:  "
            + "penstock.register(spark, catalog=\"lake\", warehouse=\"/warehouse\"). A table that exists gets a name by  "
            + "CREATE TABLE t USING " + format + " LOCATION '/warehouse/db.db/t'  without columns");
    }

    private static void checkAltered(LogicalPlan table) {
        if (!(table instanceof ResolvedTable)) return;
        ResolvedTable found = (ResolvedTable) table;
        if (!isOfSpark(found.catalog()) || !(found.table() instanceof PythonTable) || !isOurs(found.table().name())) return;
        throw new UnsupportedOperationException("this statement changes the entry in Spark's own catalog, and not the "
            + "table: " + text(found.catalog(), found.identifier()) + " was not changed\nto repair: ALTER TABLE lake.db.t ... "
            + "in a catalog:  penstock.register(spark, catalog=\"lake\", warehouse=\"/warehouse\"); then DROP TABLE and "
            + "CREATE TABLE ... USING " + found.table().name() + " LOCATION  for the entry, which has no rows of its own");
    }

    /** Returns whether it is Spark's own class, and not a replacement that knows tables of Paimon. */
    private static boolean isOfSpark(CatalogPlugin catalog) { return catalog instanceof V2SessionCatalog; }

    private static boolean isOurs(String format) {
        String name = format.toLowerCase(Locale.ROOT);
        return name.equals("penstock") || name.equals("paimon") && !hasPaimonsOwn();
    }

    private static boolean hasPaimonsOwn() {
        try {
            Class.forName("org.apache.paimon.spark.SparkSource", false, Thread.currentThread().getContextClassLoader());
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static String text(CatalogPlugin catalog, Identifier name) {
        return catalog.name() + "." + String.join(".", name.namespace()) + "." + name.name();
    }
}

class SessionNamesBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new SessionNamesCheck(); }
}

class SessionNamesCheck extends AbstractFunction1 {
    public Object apply(Object plan) {
        SessionNames.check(plan);
        return BoxedUnit.UNIT;
    }
}
