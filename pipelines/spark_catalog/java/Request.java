package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** A request to Python: the planner worker of Spark's Python data sources answers it in the metadata of a column. */
class Request {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String SOURCE = "penstock";
    static final String ASKED = "catalog-request";
    /** The digest of the classes: Python tells a jar of another release by it. */
    static final String DIGEST = "@digest@";

    final ObjectNode asked = JSON.createObjectNode();
    private final Map options;

    Request(String verb, Map options) {
        this.options = options;
        asked.put("verb", verb);
        asked.put("jar", DIGEST);
    }

    Request table(Identifier identifier) {
        return database(identifier.namespace()).with("table", identifier.name());
    }

    Request database(String[] namespace) {
        return with("database", String.join(".", namespace));
    }

    Request with(String name, String value) {
        asked.put(name, value);
        return this;
    }

    Request with(String name, Map values) {
        put(asked.putObject(name), values);
        return this;
    }

    static void put(ObjectNode node, Map values) {
        Iterator entries = values.entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            node.put((String) entry.getKey(), (String) entry.getValue());
        }
    }

    /** Returns the answer. An error of Python becomes a Refusal with only its message and its hint. */
    JsonNode answer() {
        put(asked.putObject("options"), options);
        Map sent = new HashMap();
        sent.put(ASKED, asked.toString());
        StructType schema = source().inferSchema(new CaseInsensitiveStringMap(sent));
        JsonNode answer;
        try {
            answer = (JsonNode) JSON.readTree(schema.fields()[0].metadata().getString("answer"));
        } catch (java.io.IOException unreadable) {
            throw new IllegalStateException(unreadable);
        }
        if (answer.has("error")) fail(at(answer, "error").asText(), null);
        return at(answer, "value");
    }

    static PythonDataSourceV2 source() {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(SOURCE);
        return source;
    }

    static JsonNode at(JsonNode node, int place) { return (JsonNode) node.get(place); }
    static JsonNode at(JsonNode node, String name) { return (JsonNode) node.get(name); }

    static String[] texts(JsonNode node) {
        String[] made = new String[node.size()];
        for (int i = 0; i < made.length; i++) made[i] = at(node, i).asText();
        return made;
    }

    /** Returns a quoted name, which Spark reads as one name whatever characters it contains. */
    static String quoted(String name) { return "`" + name.replace("`", "``") + "`"; }

    static NamedReference column(String name) { return Expressions.column(quoted(name)); }

    /** Returns the name in a text that Spark has quoted if it had to. */
    static String unquoted(String name) {
        return name.startsWith("`") ? name.substring(1, name.length() - 1).replace("``", "`") : name;
    }

    static Map strings(JsonNode node) {
        Map made = new HashMap();
        Iterator names = node.fieldNames();
        while (names.hasNext()) {
            String name = (String) names.next();
            made.put(name, at(node, name).asText());
        }
        return made;
    }

    static void fail(String message, Throwable cause) {
        Platform.throwException(new Refusal(message, cause));
    }

    /** Throws the error of a read or a write without the text that Spark puts around it, if Penstock raised it. */
    static void failPlainly(Throwable error) {
        String text = String.valueOf(error.getMessage());
        // After a traceback in older versions of Spark, otherwise after Spark's own sentence.
        int at = text.lastIndexOf("\npenstock.");
        if (at < 0) at = text.indexOf(": penstock.") + 1;
        int from = at <= 0 ? -1 : text.indexOf(": ", at);
        if (from < 0 || text.substring(at + 1, from).indexOf(' ') >= 0) {
            Platform.throwException(error);
        } else {
            int to = text.lastIndexOf(" SQLSTATE: ");
            fail(text.substring(from + 2, to < from ? text.length() : to).trim(), null);
        }
    }

}
