package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** sys.max_pt('t'): Spark computes it once, before it plans a query, because the name of the table is a literal. */
class NewestPartition implements UnboundFunction, ScalarFunction {
    static final String NAME = "max_pt";
    /** Absent in tasks, to which the function is sent only if the name of the table is no literal. */
    private final transient PenstockCatalog catalog;
    /** Chosen when a query is analyzed: a view keeps its own, and Spark plans a cached query in another session. */
    private final String database;

    NewestPartition(PenstockCatalog catalog) {
        this.catalog = catalog;
        database = catalog.analyzedDatabase();
    }

    public String name() { return NAME; }

    public String canonicalName() { return "penstock." + NAME; }

    public String description() { return "the greatest value of the first partition column"; }

    public BoundFunction bind(StructType input) {
        if (input.size() != 1) throw new UnsupportedOperationException("write it as  sys.max_pt('database.table')");
        return this;
    }

    public DataType[] inputTypes() { return new DataType[] {DataTypes.StringType}; }

    public DataType resultType() { return DataTypes.StringType; }

    public Object produceResult(InternalRow row) {
        if (catalog == null || row.isNullAt(0)) {
            Request.fail("sys.max_pt needs the name of a table as a literal\n  to repair: sys.max_pt('database.table')", null);
        }
        Request request = catalog.request("newest_partition").with("database", database);
        JsonNode value = request.with("table", row.getUTF8String(0).toString()).answer();
        return value.isNull() ? null : UTF8String.fromString(value.asText());
    }
}
