package penstock.spark;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;

/** An error of Penstock with its whole message. Without the state of an error, spark-sql prints the stack behind each one. */
class Refusal extends AnalysisException {
    /** The state that Spark gives errors of Python data sources. */
    private static final String STATE = "38000";

    Refusal(String message, Throwable cause) {
        super(message, scala.Option.empty(), scala.Option.empty(), scala.Option.apply(cause), scala.Option.empty(),
            new scala.collection.immutable.HashMap(), new QueryContext[0]);
    }

    public String getSqlState() { return STATE; }
}
