package penstock.spark;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;

/**
 * The rules and functions for a session that runs already: its optimizer sees plans after they are analyzed, and before
 * they run.
 */
public class SessionRules {
    public static void addTo(SparkSession session) {
        add(session, new SessionNames());
        add(session, new ReadOnce());
        add(session, new TableStatements());
        add(session, new LiteralTableNames());
        ChangeFunctions.addTo(session);
    }

    private static void add(SparkSession session, Rule rule) {
        Seq rules = session.experimental().extraOptimizations();
        for (int i = 0; i < rules.size(); i++) if (rules.apply(i).getClass() == rule.getClass()) return;
        session.experimental().extraOptimizations_$eq((Seq) rules.appended(rule));
    }
}
