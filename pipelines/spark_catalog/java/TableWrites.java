package penstock.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriteBuilder;
import org.apache.spark.sql.internal.connector.PredicateUtils;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** INSERT and INSERT OVERWRITE: what is overwritten goes to Python as options. */
class TableWriteBuilder implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite, Write {
    private WriteInfo info;
    private final String table;
    /** How many columns the table has. */
    private final int own;
    private final StructType partitions;
    private boolean overwrites;

    TableWriteBuilder(WriteInfo info, String table, int own, StructType partitions) {
        this.info = info;
        this.table = table;
        this.own = own;
        this.partitions = partitions;
    }

    public WriteBuilder truncate() {
        overwrites = true;
        return this;
    }

    // Spark's own refusal names neither the condition nor another statement.
    public boolean canOverwrite(Predicate[] conditions) { return true; }

    /** Refuses conditions that have no form as filters, such as functions and comparisons with NULL. */
    public WriteBuilder overwrite(Predicate[] conditions) {
        Filter[] filters = PredicateUtils.toV1(conditions);
        if (filters.length < conditions.length) refuse(conditions);
        return overwrite(filters);
    }

    /** Overwrites partitions by their values: dt = 'a' AND hh = 1. */
    public WriteBuilder overwrite(Filter[] filters) {
        ObjectNode partition = Request.JSON.createObjectNode();
        for (int i = 0; i < filters.length; i++) {
            if (filters[i] instanceof AlwaysTrue) continue;
            String[] columns = filters[i].references();
            String column = columns.length == 1 ? partitionColumn(Request.unquoted(columns[0])) : null;
            // A second value of a column must not replace the first one: no row has both.
            if (column == null || partition.has(column)) refuse(filters);
            if (filters[i] instanceof EqualTo) {
                put(partition, column, ((EqualTo) filters[i]).value());
            } else if (filters[i] instanceof EqualNullSafe) {
                put(partition, column, ((EqualNullSafe) filters[i]).value());
            } else {
                refuse(filters);
            }
        }
        if (partition.size() > 0) info = info.with("overwrite-partition", partition.toString());
        return truncate();
    }

    /** The partition column as the table spells it, or null: Spark leaves names as they are written. */
    private String partitionColumn(String written) {
        String[] names = partitions.fieldNames();
        String found = null;
        for (int i = 0; i < names.length; i++) {
            if (names[i].equals(written)) return written;
            if (names[i].equalsIgnoreCase(written)) found = names[i];
        }
        return found;
    }

    private void refuse(Object[] conditions) {
        Request.fail("only whole partitions are overwritten, by one value of each partition column\n  condition: "
            + Arrays.toString(conditions) + "\n  partition columns: " + String.join(", ", partitions.fieldNames())
            + "\n  to repair: write REPLACE WHERE dt = 'mon', or DELETE the rows and then INSERT", null);
    }

    private static void put(ObjectNode partition, String column, Object value) {
        if (PartitionValues.number(value) != null) partition.put(column, PartitionValues.number(value));
        else if (value instanceof byte[]) partition.putObject(column).put("bytes", PartitionValues.text(value));
        else partition.put(column, value == null ? null : PartitionValues.text(value));
    }

    public WriteBuilder overwriteDynamicPartitions() {
        info = info.with("partitionoverwritemode", "dynamic");
        return truncate();
    }

    public Write build() { return this; }

    public BatchWrite toBatch() {
        // If a MERGE only inserts, and its condition names metadata columns, its rows may have all metadata columns after
        // the others. Spark compares the columns of other batches with the table, but not the columns of a stream.
        WriteInfo written = info;
        if (info.schema().fields().length > own) written = written.with("only-first-columns", String.valueOf(own));
        // An overwrite with rows of the table itself would delete those that another job commits meanwhile. A MERGE that
        // only inserts is an append for Spark, and would replace such rows.
        String read = overwrites ? RunningStatement.snapshotReadOf(table) : RunningStatement.snapshotOfMerge(table);
        if (read != null) written = written.with("base-snapshot", read);
        return new TableBatchWrite(written, overwrites);
    }

    public StreamingWrite toStreaming() {
        PythonWriteBuilder builder = new PythonWriteBuilder(Request.source(), Request.SOURCE, info);
        if (overwrites) builder.truncate();
        return builder.build().toStreaming();
    }
}

class TableBatchWrite extends PythonBatchWrite {
    TableBatchWrite(LogicalWriteInfo info, boolean overwrites) {
        super(Request.source(), Request.SOURCE, info, overwrites);
    }

    public void commit(WriterCommitMessage[] messages) {
        try {
            super.commit(messages);
        } catch (Throwable error) {
            Request.failPlainly(error);
        }
    }
}

class WriteInfo implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final StructType schema;
    private final CaseInsensitiveStringMap options;

    WriteInfo(LogicalWriteInfo info, StructType schema, CaseInsensitiveStringMap options) {
        this.info = info;
        this.schema = schema;
        this.options = options;
    }

    WriteInfo with(String name, String value) {
        Map all = new HashMap(options.asCaseSensitiveMap());
        all.put(name, value);
        return new WriteInfo(info, schema, new CaseInsensitiveStringMap(all));
    }

    public CaseInsensitiveStringMap options() { return options; }

    public String queryId() { return info.queryId(); }

    public StructType schema() { return schema; }

    public Optional rowIdSchema() { return info.rowIdSchema(); }

    public Optional metadataSchema() { return info.metadataSchema(); }
}
