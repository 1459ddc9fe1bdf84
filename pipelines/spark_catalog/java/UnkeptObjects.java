package penstock.spark;

import org.apache.spark.sql.catalyst.analysis.RelationChanges;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.CreateFunction;
import org.apache.spark.sql.catalyst.plans.logical.CreateUserDefinedFunction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import scala.collection.immutable.Seq;

/** Refuses functions and changelogs of this catalog before names are resolved: Spark's own errors name no way out. */
class UnkeptObjects extends Rule {
    public TreeNode apply(TreeNode plan) {
        if (plan instanceof CreateFunction) checkFunction((TreeNode) ((CreateFunction) plan).child());
        if (plan instanceof CreateUserDefinedFunction) checkFunction((TreeNode) ((CreateUserDefinedFunction) plan).child());
        checkChanges(plan);
        return plan;
    }

    private static void checkFunction(TreeNode name) {
        if (!(name instanceof UnresolvedIdentifier) || !isOurs(((UnresolvedIdentifier) name).nameParts())) return;
        Request.fail("CREATE FUNCTION is not supported: the catalog keeps no functions\n  to repair: CREATE TEMPORARY "
            + "FUNCTION; or spark_catalog.default.f as its name", null);
    }

    private static void checkChanges(TreeNode plan) {
        if (plan instanceof RelationChanges) {
            Object read = ((RelationChanges) plan).relation();
            if (read instanceof UnresolvedRelation && isOurs(((UnresolvedRelation) read).multipartIdentifier())) {
                Request.fail("CHANGES FROM is not supported\n  to repair: SELECT * FROM paimon_incremental_query('t', 1, 3)"
                    + "  has the changes after snapshot 1 up to 3", null);
            }
        }
        Seq parts = plan.children();
        for (int i = 0; i < parts.size(); i++) checkChanges((TreeNode) parts.apply(i));
    }

    private static boolean isOurs(Seq parts) {
        CatalogManager manager = SparkSession.active().sessionState().catalogManager();
        String first = (String) parts.apply(0);
        CatalogPlugin catalog = parts.size() > 1 && manager.isCatalogRegistered(first) ? manager.catalog(first)
            : manager.currentCatalog();
        return catalog instanceof PenstockCatalog;
    }
}
