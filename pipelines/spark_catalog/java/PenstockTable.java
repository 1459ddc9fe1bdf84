package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsDelete;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A named table of a Python data source. This class is used for system tables, which are read-only. */
class PenstockTable extends PythonTable {
    final PenstockCatalog catalog;
    final Identifier identifier;
    final JsonNode described;
    final StructType columns;
    final Map read;

    PenstockTable(PenstockCatalog catalog, Identifier identifier, JsonNode described, StructType columns) {
        super(Request.source(), Request.SOURCE, columns);
        this.catalog = catalog;
        this.identifier = identifier;
        this.described = described;
        this.columns = columns;
        this.read = Request.strings(Request.at(described, "read"));
    }

    static PenstockTable of(PenstockCatalog catalog, Identifier identifier, JsonNode described) {
        StructType columns = (StructType) DataType.fromJson(Request.at(described, "schema").asText());
        String kind = Request.at(described, "kind").asText();
        if (kind.equals("system")) return new PenstockTable(catalog, identifier, described, columns);
        if (kind.equals("append")) return new AppendTable(catalog, identifier, described, columns);
        return new StoredTable(catalog, identifier, described, columns);
    }

    public String name() {
        return catalog.name + "." + String.join(".", identifier.namespace()) + "." + identifier.name();
    }

    /** The name with the branch that is read or written: the option wins over the branch in the name. */
    String branched(CaseInsensitiveStringMap options) {
        String branch = with(options).get("branch");
        if (branch == null) return name();
        int end = name().indexOf("$branch_");
        String main = end < 0 ? name() : name().substring(0, end);
        return branch.equals("main") ? main : main + "$branch_" + branch;
    }

    /** The snapshot that a statement reads. When a query runs, Spark reloads tables with another snapshot. */
    public String version() { return (String) read.get("planned-snapshot"); }

    public Map properties() { return Request.strings(Request.at(described, "properties")); }

    public Set capabilities() {
        return new HashSet(Arrays.asList(new Object[] {TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ}));
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new PrunedScanBuilder(columns, metadata(), with(options), Request.at(described, "rows"));
    }

    /** The columns of Paimon's metadata that a query may name. */
    StructField[] metadata() { return new StructField[0]; }

    CaseInsensitiveStringMap with(CaseInsensitiveStringMap options) {
        Map all = new HashMap(read);
        all.putAll(PenstockCatalog.withoutTimeTravel(options));
        return new CaseInsensitiveStringMap(all);
    }
}

/** A table that can be written, or one of its branches. */
class StoredTable extends PenstockTable implements
        TruncatableTable, SupportsAtomicPartitionManagement, SupportsRowLevelOperations, SupportsMetadataColumns,
        StagedTable {
    static final String OLD = "_old_";
    static final StructField FILE = new StructField("_penstock_file", DataTypes.StringType, false, Metadata.empty());
    static final StructField ROW = new StructField("_penstock_row", DataTypes.LongType, false, Metadata.empty());

    final GroupFilter filter = new GroupFilter();
    /** Whether a statement changes or deletes rows of this table. */
    boolean changed;
    /** Whether the statement that writes the rows has created the table. */
    boolean created;
    /** The unused name that this table gets after its rows are written. */
    Identifier staged;
    /** The table that this one replaces after its rows are written. */
    Identifier replaced;
    /** The state of that table when this one was created, for Python to compare. */
    String since;

    StoredTable(PenstockCatalog catalog, Identifier identifier, JsonNode described, StructType columns) {
        super(catalog, identifier, described, columns);
    }

    String[] keys() { return Request.texts(Request.at(described, "keys")); }

    public Constraint[] constraints() {
        String[] keys = keys();
        if (keys.length == 0) return new Constraint[0];
        NamedReference[] named = new NamedReference[keys.length];
        for (int i = 0; i < keys.length; i++) named[i] = Request.column(keys[i]);
        PrimaryKey.Builder builder = (PrimaryKey.Builder) Constraint.primaryKey("pk", named).enforced(false);
        return new Constraint[] {builder.build()};
    }

    public Transform[] partitioning() {
        String[] names = Request.texts(Request.at(described, "partitions"));
        Transform[] made = new Transform[names.length];
        for (int i = 0; i < made.length; i++) made[i] = Expressions.identity(Request.quoted(names[i]));
        return made;
    }

    public Set capabilities() {
        filter.on();
        Set all = new HashSet(super.capabilities());
        all.addAll(Arrays.asList(new Object[] {
            TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC,
            TableCapability.AUTOMATIC_SCHEMA_EVOLUTION}));
        return all;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        WriteInfo rows = new WriteInfo(info, info.schema(), with(created ? ofWrite(info.options()) : info.options()));
        return new TableWriteBuilder(rows, branched(info.options()), columns.fields().length, partitionSchema());
    }

    /** Gives the options of a frame to the table that it creates, and returns those that are for its rows alone. */
    private CaseInsensitiveStringMap ofWrite(CaseInsensitiveStringMap given) {
        if (given.isEmpty()) return given;
        Request request = catalog.request("created_options").table(identifier);
        return new CaseInsensitiveStringMap(
            Request.strings(request.with("written", given.asCaseSensitiveMap()).answer()));
    }

    public boolean truncateTable() {
        catalog.request("truncate").table(identifier).answer();
        return true;
    }

    /** Whether rows are identified by file and position, since they have no key. */
    boolean placed() { return keys().length == 0; }

    StructField[] keyColumns() {
        String[] keys = keys();
        StructField[] made = new StructField[keys.length];
        for (int i = 0; i < keys.length; i++) made[i] = columns.apply(keys[i]);
        return made;
    }

    /** The indexes of the row id's columns in the old row. */
    int[] idInOldRow() {
        String[] keys = keys();
        int[] made = new int[keys.length];
        for (int i = 0; i < made.length; i++) made[i] = columns.fieldIndex(keys[i]);
        return placed() ? new int[] {0, 1} : made;
    }

    // Each column again with its value before an UPDATE or MERGE: the columns themselves have the new values. Without a
    // key, the file and the position of the row.
    StructField[] oldRow() {
        if (placed()) return new StructField[] {FILE, ROW};
        StructField[] made = new StructField[columns.fields().length];
        for (int i = 0; i < made.length; i++) {
            StructField field = columns.fields()[i];
            made[i] = new StructField(OLD + field.name(), field.dataType(), true, Metadata.empty());
        }
        return made;
    }

    /** The partition and the bucket of a row, if Spark can compute them: one task writes a bucket then. */
    Expression[] bucket() {
        JsonNode spread = Request.at(described, "spread");
        if (spread == null || spread.isNull()) return null;
        String[] partitions = Request.texts(Request.at(described, "partitions"));
        String[] keys = Request.texts(Request.at(spread, "keys"));
        Expression[] key = new Expression[1 + keys.length];
        key[0] = Expressions.literal(Integer.valueOf(Request.at(spread, "buckets").asInt()));
        for (int i = 0; i < keys.length; i++) key[1 + i] = Request.column(keys[i]);
        Expression[] made = new Expression[partitions.length + 1];
        for (int i = 0; i < partitions.length; i++) made[i] = Request.column(partitions[i]);
        made[partitions.length] = Expressions.apply(BucketFunction.NAME, key);
        return made;
    }

    // Spark may read all metadata columns of a table that it changes, if it has to cast one: merged rows have no file.
    // Nor have all rows an id, which Python knows.
    StructField[] metadata() {
        return HiddenColumn.ofPaimon(columns, partitionSchema().fields(), placed() || !changed, !changed);
    }

    // Only statements that change rows use old values, but a query must have these columns too: for a MERGE with the
    // table itself as source, Spark loads it again for reading, and refuses the statement if columns are missing.
    public MetadataColumn[] metadataColumns() {
        StructField[] old = oldRow(), read = metadata();
        Set updated = new HashSet(Arrays.asList(Request.texts(Request.at(described, "old"))));
        Set keys = new HashSet(Arrays.asList(keys()));
        MetadataColumn[] made = new MetadataColumn[old.length + read.length];
        for (int i = 0; i < old.length; i++) {
            String name = placed() ? old[i].name() : columns.fields()[i].name();
            // The key is the row's id, which comes with each change.
            made[i] = new HiddenColumn(old[i], !keys.contains(name), !keys.contains(name) && (placed() || updated.contains(name)));
        }
        for (int i = 0; i < read.length; i++) made[old.length + i] = new HiddenColumn(read[i], false, false);
        return made;
    }

    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        // Spark calls this before it knows whether `deleteWhere` can run the DELETE, which more tables allow.
        if (!deletesByCondition(info.command())) check(info.command());
        return new RowChangeOperation(this, info.command());
    }

    private boolean deletesByCondition(RowLevelOperation.Command command) {
        return command == RowLevelOperation.Command.DELETE && this instanceof SupportsDelete;
    }

    private void check(RowLevelOperation.Command command) {
        catalog.request("check_row_changes").table(identifier).with("command", command.name()).answer();
    }

    /** Refuses a DELETE that writes rows, which was not known when it was planned. */
    void checkWritten(RowLevelOperation.Command command) {
        if (deletesByCondition(command)) check(command);
    }

    void refuseSetting(List keys) {
        for (int i = 0; i < keys.size(); i++) {
            catalog.request("check_row_changes").table(identifier)
                .with("command", "UPDATE").with("sets", (String) keys.get(i)).answer();
        }
    }

    // partitions

    public StructType partitionSchema() {
        String[] names = Request.texts(Request.at(described, "partitions"));
        StructType made = new StructType();
        for (int i = 0; i < names.length; i++) made = made.add(columns.apply(names[i]));
        return made;
    }

    public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow ident) {
        StructType types = partitionSchema();
        JsonNode found = catalog.request("partitions").table(identifier)
            .with("where", partition(names, ident)).answer();
        InternalRow[] rows = new InternalRow[found.size()];
        for (int i = 0; i < rows.length; i++) {
            Object[] values = new Object[types.fields().length];
            for (int j = 0; j < values.length; j++) {
                values[j] = PartitionValues.of(Request.at(Request.at(found, i), j), types.fields()[j].dataType());
            }
            rows[i] = new GenericInternalRow(values);
        }
        return rows;
    }

    private Map partition(String[] names, InternalRow ident) {
        Map made = new HashMap();
        StructType types = partitionSchema();
        for (int i = 0; i < names.length; i++) {
            DataType type = types.apply(names[i]).dataType();
            Object value = ident.isNullAt(i) ? null : ident.get(i, type);
            made.put(names[i], value == null ? null : PartitionValues.internalText(value));
        }
        return made;
    }

    public boolean dropPartition(InternalRow ident) { return dropPartitions(new InternalRow[] {ident}); }

    /** Drops partitions in one commit. Spark lists those of TRUNCATE TABLE with values of some columns alone. */
    public boolean dropPartitions(InternalRow[] idents) {
        Request request = catalog.request("drop_partitions").table(identifier);
        ArrayNode list = request.asked.putArray("wheres");
        String[] names = partitionSchema().fieldNames();
        for (int i = 0; i < idents.length; i++) Request.put(list.addObject(), partition(names, idents[i]));
        return request.answer().asBoolean();
    }

    public boolean truncatePartition(InternalRow ident) { return dropPartition(ident); }

    public boolean truncatePartitions(InternalRow[] idents) { return dropPartitions(idents); }

    public void createPartition(InternalRow ident, Map properties) { createPartitions(null, null); }

    public void createPartitions(InternalRow[] idents, Map[] properties) {
        Request.fail("a partition is created by the first row that is written to it\n"
            + "  to repair: remove ADD PARTITION", null);
    }

    public void replacePartitionMetadata(InternalRow ident, Map properties) {
        Request.fail("partitions have no properties", null);
    }

    public Map loadPartitionMetadata(InternalRow ident) {
        String[] names = partitionSchema().fieldNames();
        return Request.strings(catalog.request("partition_statistics").table(identifier)
            .with("where", partition(names, ident)).answer());
    }

    // CREATE TABLE AS, REPLACE TABLE

    public void commitStagedChanges() {
        if (staged != null) catalog.request("name_staged").table(staged).with("new", identifier.name()).answer();
        if (replaced == null) return;
        catalog.request("replace_table").table(replaced).with("new", identifier.name()).with("since", since).answer();
    }

    public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }

    public void abortStagedChanges() { catalog.dropTable(identifier); }
}

/** A table without a primary key: its rows are deleted by a condition on its columns. */
class AppendTable extends StoredTable implements SupportsDelete {
    AppendTable(PenstockCatalog catalog, Identifier identifier, JsonNode described, StructType columns) {
        super(catalog, identifier, described, columns);
    }

    private Request conditions(String verb, Filter[] filters) {
        Request request = catalog.request(verb).table(identifier);
        ArrayNode list = request.asked.putArray("filters");
        for (int i = 0; i < filters.length; i++) {
            ObjectNode node = Filters.described(filters[i]);
            if (node == null) return null;
            list.add(node);
        }
        return request;
    }

    public boolean canDeleteWhere(Filter[] filters) {
        Request request = conditions("can_delete", filters);
        return request != null && request.answer().asBoolean();
    }

    public void deleteWhere(Filter[] filters) { UnitJobs.answer(conditions("delete", filters)); }
}
