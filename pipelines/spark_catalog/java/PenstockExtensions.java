package penstock.spark;

import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * For the setting spark.sql.extensions: Paimon's statements about tags, which Spark's parser does not know, its functions
 * and ANALYZE TABLE, and refusals of statements that would change only Spark's own catalog.
 */
public class PenstockExtensions extends AbstractFunction1 {
    public Object apply(Object extensions) {
        ((SparkSessionExtensions) extensions).injectParser(new TagParserBuilder());
        ((SparkSessionExtensions) extensions).injectHintResolutionRule(new UnkeptObjectsBuilder());
        ((SparkSessionExtensions) extensions).injectCheckRule(new SessionNamesBuilder());
        ((SparkSessionExtensions) extensions).injectPreCBORule(new ReadOnceBuilder());
        ((SparkSessionExtensions) extensions).injectPreCBORule(new TableStatementsBuilder());
        ((SparkSessionExtensions) extensions).injectPreCBORule(new LiteralTableNamesBuilder());
        ChangeFunctions.addTo((SparkSessionExtensions) extensions);
        return BoxedUnit.UNIT;
    }
}

class UnkeptObjectsBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new UnkeptObjects(); }
}

class ReadOnceBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new ReadOnce(); }
}

class TableStatementsBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new TableStatements(); }
}

class LiteralTableNamesBuilder extends AbstractFunction1 {
    public Object apply(Object session) { return new LiteralTableNames(); }
}

class TagParserBuilder extends AbstractFunction2 {
    public Object apply(Object session, Object parser) { return new TagParser((ParserInterface) parser); }
}

/** Hands statements that Spark refuses to the catalog, as a CALL or a query, if they are about tags. */
class TagParser implements ParserInterface {
    private static final String NAME = "((?:`(?:[^`]|``)+`|[\\w$]+)(?:\\s*\\.\\s*(?:`(?:[^`]|``)+`|[\\w$]+))*)";
    private static final Pattern CHANGE = pattern("~*+ALTER~++TABLE~++" + NAME
        + "~++(?:CREATE|CREATE~++OR~++REPLACE|REPLACE|DELETE|DROP|RENAME)~++TAG\\b.*");
    private static final Pattern LIST = pattern("~*+SHOW~++TAGS~++" + NAME + "(?:~|;)*+");

    private static final Pattern LOAD = pattern("~*+COPY~++INTO~++([^']).*");
    private static final Pattern UNLOAD = pattern("~*+COPY~++INTO~++'.*");

    private final ParserInterface parser;

    /**
     * Returns the pattern with white space and comments for each ~.
     *
     * It never tries another end of a comment: the code between two comments would be part of one, and Java would need a
     * place on its stack for each line of a long comment.
     */
    private static Pattern pattern(String text) {
        String blank = "(?:\\s++|--[^\n]*+(?:\n|$)|/\\*(?:[^*]|\\*(?!/))*+\\*/)";
        return Pattern.compile(text.replace("~", blank), Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    }

    TagParser(ParserInterface parser) { this.parser = parser; }

    public LogicalPlan parsePlan(String text) throws ParseException {
        try {
            return parser.parsePlan(text);
        } catch (ParseException unknown) {
            return parser.parsePlan(instead(text, unknown));
        }
    }

    public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
        try {
            return parser.parsePlanWithParameters(text, parameters);
        } catch (ParseException unknown) {
            return parser.parsePlanWithParameters(instead(text, unknown), parameters);
        }
    }

    /** Returns what Spark shall parse instead. It is the error of the statement if that is not about tags. */
    private String instead(String text, ParseException unknown) throws ParseException {
        Matcher change = CHANGE.matcher(text);
        if (change.matches()) {
            String[] names = names(change.group(1));
            String catalog = names.length == 3 ? quoted(names[0]) + "." : "";
            StringBuilder code = new StringBuilder();
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < bytes.length; i++) code.append(String.format("%02X", new Object[] {Byte.valueOf(bytes[i])}));
            return "CALL " + catalog + "sys.alter_table_tag(CAST(X'" + code + "' AS STRING))";
        }
        if (LOAD.matcher(text).matches()) refuseCopy("INSERT INTO t SELECT * FROM csv.`/data/files`");
        if (UNLOAD.matcher(text).matches()) refuseCopy("INSERT OVERWRITE DIRECTORY '/export' USING csv SELECT * FROM t");
        Matcher list = LIST.matcher(text);
        if (!list.matches()) throw unknown;
        String[] names = names(list.group(1));
        names[names.length - 1] = names[names.length - 1] + "$tags";
        StringBuilder table = new StringBuilder();
        for (int i = 0; i < names.length; i++) table.append(i == 0 ? "" : ".").append(quoted(names[i]));
        return "SELECT tag_name AS tag FROM " + table + " ORDER BY tag";
    }

    private static void refuseCopy(String instead) {
        Request.fail("COPY INTO is not supported\n  to repair: " + instead, null);
    }

    private String[] names(String text) throws ParseException {
        Seq parts = parser.parseMultipartIdentifier(text);
        String[] names = new String[parts.size()];
        for (int i = 0; i < names.length; i++) names[i] = (String) parts.apply(i);
        return names;
    }

    private static String quoted(String name) { return "`" + name.replace("`", "``") + "`"; }

    public org.apache.spark.sql.catalyst.expressions.Expression parseExpression(String text) throws ParseException {
        return parser.parseExpression(text);
    }

    public TableIdentifier parseTableIdentifier(String text) throws ParseException {
        return parser.parseTableIdentifier(text);
    }

    public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
        return parser.parseFunctionIdentifier(text);
    }

    public Seq parseMultipartIdentifier(String text) throws ParseException {
        return parser.parseMultipartIdentifier(text);
    }

    public TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
        return parser.parseTemporalTableIdentifier(text);
    }

    public LogicalPlan parseQuery(String text) throws ParseException { return parser.parseQuery(text); }

    public StructType parseRoutineParam(String text) throws ParseException { return parser.parseRoutineParam(text); }

    public SqlStatementSplitResult splitStatements(String text) { return parser.splitStatements(text); }

    public StructType parseTableSchema(String text) throws ParseException { return parser.parseTableSchema(text); }

    public DataType parseDataType(String text) throws ParseException { return parser.parseDataType(text); }
}
