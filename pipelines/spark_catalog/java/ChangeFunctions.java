package penstock.spark;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * Paimon's table functions that read changes. A call is a read of the table with the option that the function stands for.
 */
class ChangeFunctions {
    private static final String[][] FUNCTIONS = {
        {"paimon_incremental_query", "incremental-between", "'TABLE', 'START', 'END'"},
        {"paimon_incremental_between_timestamp", "incremental-between-timestamp", "'TABLE', 'START', 'END'"},
        {"paimon_incremental_to_auto_tag", "incremental-to-auto-tag", "'TABLE', 'TAG'"},
    };

    private ChangeFunctions() {}

    static void addTo(SparkSession session) {
        TableFunctionRegistry registry = session.sessionState().tableFunctionRegistry();
        Seq known = registry.listFunction();
        // Sessions with an extension, Paimon's own or the one of this catalog, have the functions already.
        for (int i = 0; i < known.size(); i++) {
            if (((FunctionIdentifier) known.apply(i)).funcName().equals(FUNCTIONS[0][0])) return;
        }
        for (int i = 0; i < FUNCTIONS.length; i++) {
            registry.createOrReplaceTempFunction(FUNCTIONS[i][0], new ChangeFunction(FUNCTIONS[i]), "java_udf");
        }
    }

    static void addTo(SparkSessionExtensions extensions) {
        for (int i = 0; i < FUNCTIONS.length; i++) {
            FunctionIdentifier name = new FunctionIdentifier(FUNCTIONS[i][0], Option.empty(), Option.empty());
            extensions.injectTableFunction(new Tuple3(name, info(i), new ChangeFunction(FUNCTIONS[i])));
        }
    }

    private static ExpressionInfo info(int place) {
        return new ExpressionInfo(ChangeFunction.class.getName(), FUNCTIONS[place][0]);
    }
}

class ChangeFunction extends AbstractFunction1 {
    private final String name;
    private final String option;
    private final String usage;

    ChangeFunction(String[] described) {
        name = described[0];
        option = described[1];
        usage = described[2];
    }

    public Object apply(Object arguments) {
        String[] texts = texts((Seq) arguments);
        String ends = texts[1] + (texts.length > 2 ? "," + texts[2] : "");
        ParserInterface parser = SparkSession.active().sessionState().sqlParser();
        try {
            Seq names = parser.parseMultipartIdentifier(texts[0]);
            StringBuilder table = new StringBuilder();
            for (int i = 0; i < names.size(); i++) table.append(i == 0 ? "" : ".").append(Request.quoted((String) names.apply(i)));
            return parser.parsePlan("SELECT * FROM " + table + " WITH (`" + option + "` = '" + escaped(ends) + "')");
        } catch (ParseException unreadable) {
            throw new UnsupportedOperationException("'" + texts[0]
                + "' is not the name of a table\n  to repair: write it as 'database.table', a name such as t$branch_b in backquotes");
        }
    }

    private String[] texts(Seq arguments) {
        boolean fits = arguments.size() == usage.split(", ").length;
        String[] texts = new String[arguments.size()];
        for (int i = 0; i < texts.length && fits; i++) {
            org.apache.spark.sql.catalyst.expressions.Expression argument =
                (org.apache.spark.sql.catalyst.expressions.Expression) arguments.apply(i);
            Object value = argument.foldable() ? argument.eval(null) : null;
            fits = value != null;
            texts[i] = String.valueOf(value);
        }
        if (!fits) {
            throw new UnsupportedOperationException("the arguments of " + name + " are not understood\n  to repair: " + name
                + "(" + usage + "), as literals");
        }
        return texts;
    }

    private static String escaped(String text) { return text.replace("\\", "\\\\").replace("'", "\\'"); }
}
