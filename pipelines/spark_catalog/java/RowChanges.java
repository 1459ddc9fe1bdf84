package penstock.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.WeakHashMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** UPDATE, DELETE and MERGE: Spark finds the rows, and Python receives each change as the old row, or its position, and the new row. */
class RowChangeOperation implements SupportsDelta, RowLevelOperationBuilder {
    private final StoredTable table;
    private final RowLevelOperation.Command command;
    private boolean planned;

    RowChangeOperation(StoredTable table, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
    }

    public RowLevelOperation build() { return this; }

    public RowLevelOperation.Command command() { return command; }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }

    /** The key, or the file of a row and its position in the file. */
    public NamedReference[] rowId() { return columns(table.placed() ? table.oldRow() : table.keyColumns()); }

    public boolean representUpdateAsDeleteAndInsert() {
        if (command == RowLevelOperation.Command.MERGE && !planned) table.filter.off();
        planned = true;
        return false;
    }

    /** The old row, and what conditions may name: Spark plans them before it adds metadata columns by itself. */
    public NamedReference[] requiredMetadataAttributes() {
        List all = new ArrayList(Arrays.asList(columns(table.metadata())));
        if (!table.placed()) all.addAll(0, Arrays.asList(columns(table.oldRow())));
        return (NamedReference[]) all.toArray(new NamedReference[0]);
    }

    private static NamedReference[] columns(StructField[] fields) {
        NamedReference[] made = new NamedReference[fields.length];
        for (int i = 0; i < fields.length; i++) made[i] = Request.column(fields[i].name());
        return made;
    }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new RowChangeWrite(table, info, command);
    }
}

/**
 * Disables Spark's filter of the files that a MERGE replaces, while a MERGE is planned that replaces none.
 *
 * Spark copies the condition of the MERGE into this filter without metadata columns, and then fails to resolve the metadata
 * columns in it. It calls representUpdateAsDeleteAndInsert immediately before that, and capabilities immediately after.
 */
class GroupFilter {
    private static final String NAME = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled";
    // What the setting was, and how many threads of a session plan a MERGE: the last one restores it.
    private static final Map PLANNED = new WeakHashMap();
    private SQLConf settings;

    void off() {
        if (settings != null) return;
        settings = SQLConf.get();
        synchronized (PLANNED) {
            Object[] known = (Object[]) PLANNED.get(settings);
            if (known == null) known = new Object[] {settings.contains(NAME) ? settings.getConfString(NAME) : null, Integer.valueOf(0)};
            PLANNED.put(settings, new Object[] {known[0], Integer.valueOf(((Integer) known[1]).intValue() + 1)});
            settings.setConfString(NAME, "false");
        }
    }

    void on() {
        if (settings == null) return;
        synchronized (PLANNED) {
            Object[] known = (Object[]) PLANNED.get(settings);
            int others = ((Integer) known[1]).intValue() - 1;
            if (others > 0) {
                PLANNED.put(settings, new Object[] {known[0], Integer.valueOf(others)});
            } else {
                PLANNED.remove(settings);
                if (known[0] == null) settings.unsetConf(NAME);
                else settings.setConfString(NAME, (String) known[0]);
            }
        }
        settings = null;
    }
}

/** The write of a statement. Each row has its kind, the old row or its position, and the new row. */
class RowChangeWrite implements DeltaWriteBuilder, DeltaWrite, DeltaBatchWrite, RequiresDistributionAndOrdering {
    private final StoredTable table;
    private final RowLevelOperation.Command command;
    private final StructField[] old;
    private final StructField[] fields;
    private final TableBatchWrite inner;

    RowChangeWrite(StoredTable table, LogicalWriteInfo info, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
        this.old = table.oldRow();
        this.fields = table.columns.fields();
        StructType given = new StructType().add("_kind", DataTypes.ByteType, false);
        for (int i = 0; i < old.length; i++) given = given.add(old[i].name(), old[i].dataType(), true);
        for (int i = 0; i < fields.length; i++) given = given.add(fields[i].name(), fields[i].dataType(), true);
        WriteInfo changes = new WriteInfo(info, given, table.with(info.options())).with("row-changes", command.name());
        if (table.bucket() != null) changes = changes.with("changes-by-bucket", "true");
        this.inner = new TableBatchWrite(changes, false);
    }

    public Distribution requiredDistribution() {
        Expression[] bucket = table.bucket();
        return bucket == null ? (Distribution) Distributions.unspecified() : Distributions.clustered(bucket);
    }

    public SortOrder[] requiredOrdering() { return new SortOrder[0]; }

    public DeltaWrite build() { return this; }

    public DeltaBatchWrite toBatch() {
        table.checkWritten(command);
        // MERGE may set a key to the same value: UPDATE SET * does. Its rows are compared when they are written.
        if (command == RowLevelOperation.Command.UPDATE) table.refuseSetting(PlannedStatement.keysSet());
        return this;
    }

    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        DataWriterFactory writers = inner.createBatchWriterFactory(physical);
        return new RowChangeWriterFactory(writers, types(old), types(fields), table.idInOldRow());
    }

    private static DataType[] types(StructField[] fields) {
        DataType[] types = new DataType[fields.length];
        for (int i = 0; i < types.length; i++) types[i] = fields[i].dataType();
        return types;
    }

    public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }

    public void commit(WriterCommitMessage[] messages) { inner.commit(messages); }

    public void abort(WriterCommitMessage[] messages) { inner.abort(messages); }
}

/** The plan of the statement that runs. */
class PlannedStatement {
    /** The key columns that an UPDATE sets: only for these Spark plans a column with the previous value. */
    static List keysSet() {
        List found = new ArrayList();
        String id = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        QueryExecution running = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
        if (running == null || !(running.analyzed() instanceof WriteDelta)) return found;
        String prefix = RowDeltaUtils.ORIGINAL_ROW_ID_VALUE_PREFIX();
        scala.collection.Iterator columns = ((WriteDelta) running.analyzed()).query().output().iterator();
        while (columns.hasNext()) {
            String name = ((Attribute) columns.next()).name();
            if (name.startsWith(prefix)) found.add(name.substring(prefix.length()));
        }
        return found;
    }
}

class RowChangeWriterFactory implements DeltaWriterFactory {
    private final DataWriterFactory inner;
    private final DataType[] old;
    private final DataType[] types;
    private final int[] ids;

    RowChangeWriterFactory(DataWriterFactory inner, DataType[] old, DataType[] types, int[] ids) {
        this.inner = inner;
        this.old = old;
        this.types = types;
        this.ids = ids;
    }

    public DeltaWriter createWriter(int partition, long task) {
        return new RowChangeWriter(inner.createWriter(partition, task), old, types, ids);
    }
}

/** Spark pushes rows, and Python's writer pulls them in a separate thread; a few chunks wait between the two. */
class RowChangeWriter implements DeltaWriter {
    static final byte INSERT = 0, UPDATE = 2, DELETE = 3;
    static final int CHUNK = 256;

    private final DataType[] old;
    private final DataType[] types;
    private final int[] ids;
    private final DataWriter inner;
    private final WaitingRows waiting = new WaitingRows();
    private final Feeder feeder;
    private List chunk = new ArrayList();

    RowChangeWriter(DataWriter inner, DataType[] old, DataType[] types, int[] ids) {
        this.inner = inner;
        this.old = old;
        this.types = types;
        this.ids = ids;
        this.feeder = new Feeder(inner, waiting, TaskContext.get());
        feeder.setDaemon(true);
        feeder.start();
    }

    public void delete(Object metadata, Object id) throws IOException { change(DELETE, metadata, id, null); }

    public void update(Object metadata, Object id, Object row) throws IOException { change(UPDATE, metadata, id, row); }

    public void insert(Object row) throws IOException { change(INSERT, null, null, row); }

    public void write(Object row) throws IOException { insert(row); }

    private void change(byte kind, Object before, Object id, Object row) throws IOException {
        Object[] values = new Object[1 + old.length + types.length];
        values[0] = Byte.valueOf(kind);
        // Without a key, the row id is the old row, and the metadata columns were only read.
        if (ids.length < old.length) copy((InternalRow) before, old, values, 1);
        for (int i = 0; id != null && i < ids.length; i++) {
            values[1 + ids[i]] = InternalRow.copyValue(((InternalRow) id).get(i, old[ids[i]]));
        }
        copy((InternalRow) row, types, values, 1 + old.length);
        chunk.add(new GenericInternalRow(values));
        if (chunk.size() == CHUNK) hand();
    }

    // Spark gives the same object for each row.
    private static void copy(InternalRow row, DataType[] types, Object[] values, int from) {
        if (row == null) return;
        for (int i = 0; i < types.length; i++) {
            if (!row.isNullAt(i)) values[from + i] = InternalRow.copyValue(row.get(i, types[i]));
        }
    }

    private void hand() throws IOException {
        List full = chunk;
        chunk = new ArrayList();
        while (!waiting.offer(full)) feeder.check();
    }

    public WriterCommitMessage commit() throws IOException {
        if (!chunk.isEmpty()) hand();
        hand();
        feeder.finish();
        return inner.commit();
    }

    public void abort() throws IOException {
        waiting.stop();
        feeder.interrupt();
        inner.abort();
    }

    public void close() throws IOException {
        waiting.stop();
        feeder.interrupt();
        inner.close();
    }
}

/** The chunks between two threads, as an iterator. An empty chunk ends it. */
class WaitingRows implements Iterator {
    private final ArrayBlockingQueue chunks = new ArrayBlockingQueue(8);
    private Iterator current = new ArrayList().iterator();
    private boolean ended;
    private volatile boolean stopped;

    boolean offer(List chunk) throws IOException {
        try {
            return chunks.offer(chunk, 100, TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException(interrupted);
        }
    }

    void stop() { stopped = true; }

    public boolean hasNext() {
        while (!current.hasNext() && !ended) {
            List chunk = null;
            try {
                chunk = (List) chunks.poll(100, TimeUnit.MILLISECONDS);
            } catch (InterruptedException interrupted) {
                stopped = true;
            }
            if (stopped) throw new IllegalStateException("the task has ended");
            if (chunk == null) continue;
            ended = chunk.isEmpty();
            current = chunk.iterator();
        }
        return !ended;
    }

    public Object next() {
        if (!hasNext()) throw new NoSuchElementException();
        return current.next();
    }

    public void remove() { throw new UnsupportedOperationException(); }
}

class Feeder extends Thread {
    private final DataWriter inner;
    private final Iterator rows;
    private final TaskContext context;
    private volatile Throwable failure;

    Feeder(DataWriter inner, Iterator rows, TaskContext context) {
        super("penstock-row-changes");
        this.inner = inner;
        this.rows = rows;
        this.context = context;
    }

    public void run() {
        TaskContext$.MODULE$.setTaskContext(context);
        try {
            inner.writeAll(rows);
        } catch (Throwable error) {
            failure = error;
        } finally {
            TaskContext$.MODULE$.unset();
        }
    }

    void check() throws IOException {
        if (failure != null) org.apache.spark.unsafe.Platform.throwException(failure);
        if (!isAlive()) throw new IOException("the writer of the task ended before its rows did");
    }

    void finish() throws IOException {
        try {
            join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IOException(interrupted);
        }
        if (failure != null) org.apache.spark.unsafe.Platform.throwException(failure);
    }
}
