package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A procedure of CALL: its parameters and its rows are texts. */
class PenstockProcedure implements UnboundProcedure, BoundProcedure {
    private final PenstockCatalog catalog;
    private final String name;
    private final JsonNode described;

    PenstockProcedure(PenstockCatalog catalog, String name, JsonNode described) {
        this.catalog = catalog;
        this.name = name;
        this.described = described;
    }

    public String name() { return name; }

    public String description() { return Request.at(described, "description").asText(); }

    /** Refuses more positional arguments than there are positions: further parameters are aliases, for calls by name. */
    public BoundProcedure bind(StructType input) {
        int given = 0;
        while (given < input.size() && !byName(input.fields()[given])) given++;
        if (given > Request.at(described, "places").asInt()) Request.fail(Request.at(described, "too_many").asText(), null);
        return this;
    }

    private static boolean byName(StructField argument) {
        return argument.metadata().contains(ProcedureParameter.BY_NAME_METADATA_KEY);
    }

    public boolean isDeterministic() { return false; }

    public ProcedureParameter[] parameters() {
        String[] names = Request.texts(Request.at(described, "parameters"));
        int required = Request.at(described, "required").asInt();
        ProcedureParameter[] made = new ProcedureParameter[names.length];
        for (int i = 0; i < made.length; i++) {
            ProcedureParameter.Builder builder = ProcedureParameter.in(names[i], DataTypes.StringType);
            made[i] = i < required ? builder.build() : builder.defaultValue("NULL").build();
        }
        return made;
    }

    public Iterator call(InternalRow input) {
        Request request = catalog.request("call").with("procedure", name);
        request.with("database", catalog.currentDatabase());
        ArrayNode values = request.asked.putArray("values");
        for (int i = 0; i < input.numFields(); i++) {
            if (input.isNullAt(i)) values.addNull();
            else values.add(input.getUTF8String(i).toString());
        }
        JsonNode answer = UnitJobs.answer(request);
        refreshCached(Request.texts(Request.at(answer, "tables")));
        return Collections.singletonList(new ProcedureRows(Request.texts(Request.at(answer, "rows")))).iterator();
    }

    /** Refreshes cached tables, since the call may have changed their rows. */
    private void refreshCached(String[] tables) {
        SparkSession session = SparkSession.active();
        if (session.sharedState().cacheManager().isEmpty()) return;
        for (int i = 0; i < tables.length; i++) {
            String table = "`" + catalog.name + "`." + tables[i];
            if (session.catalog().tableExists(table)) session.catalog().refreshTable(table);
        }
    }
}

class ProcedureRows implements LocalScan {
    private final String[] texts;

    ProcedureRows(String[] texts) { this.texts = texts; }

    public InternalRow[] rows() {
        InternalRow[] rows = new InternalRow[texts.length];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = new GenericInternalRow(new Object[] {UTF8String.fromString(texts[i])});
        }
        return rows;
    }

    public StructType readSchema() { return new StructType().add("result", DataTypes.StringType); }
}
