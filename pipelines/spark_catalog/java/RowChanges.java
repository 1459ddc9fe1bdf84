package penstock.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** UPDATE, DELETE and MERGE: Spark finds the rows, and Python receives each change with the old and the new row. */
class RowChangeOperation implements SupportsDelta, RowLevelOperationBuilder {
    private final StoredTable table;
    private final RowLevelOperation.Command command;

    RowChangeOperation(StoredTable table, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
    }

    public RowLevelOperation build() { return this; }

    public RowLevelOperation.Command command() { return command; }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }

    public NamedReference[] rowId() {
        String[] keys = table.keys();
        NamedReference[] made = new NamedReference[keys.length];
        for (int i = 0; i < keys.length; i++) made[i] = Expressions.column(keys[i]);
        return made;
    }

    public boolean representUpdateAsDeleteAndInsert() { return false; }

    public NamedReference[] requiredMetadataAttributes() {
        StructField[] fields = table.columns.fields();
        NamedReference[] made = new NamedReference[fields.length];
        for (int i = 0; i < fields.length; i++) made[i] = Expressions.column(StoredTable.OLD + fields[i].name());
        return made;
    }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new RowChangeWrite(table, info, command);
    }
}

/** UPDATE, DELETE and MERGE on a table without a key: Spark reads all rows, and writes those that the table has then. */
class RowReplacement implements RowLevelOperation, RowLevelOperationBuilder {
    private final StoredTable table;
    private final RowLevelOperation.Command command;

    RowReplacement(StoredTable table, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
    }

    public RowLevelOperation build() { return this; }

    public RowLevelOperation.Command command() { return command; }

    /** No filters: a row that is not read would be lost. */
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new CountedScanBuilder(table.columns, table.with(options), Request.at(table.described, "rows"));
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new ReplacementWrite(table, info, command); }
}

class ReplacementWrite implements WriteBuilder, Write, BatchWrite {
    private final StructType columns;
    private final TableBatchWrite inner;

    ReplacementWrite(StoredTable table, LogicalWriteInfo info, RowLevelOperation.Command command) {
        this.columns = table.columns;
        this.inner = new TableBatchWrite(
            new WriteInfo(info, columns, table.with(info.options())).with("row-changes", command.name()), true);
    }

    public Write build() { return this; }

    public BatchWrite toBatch() { return this; }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        DataType[] types = new DataType[columns.fields().length];
        for (int i = 0; i < types.length; i++) types[i] = columns.fields()[i].dataType();
        return new PushedRowWriterFactory(inner.createBatchWriterFactory(physical), types);
    }

    public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }

    public void commit(WriterCommitMessage[] messages) { inner.commit(messages); }

    public void abort(WriterCommitMessage[] messages) { inner.abort(messages); }
}

class PushedRowWriterFactory implements DataWriterFactory {
    private final DataWriterFactory inner;
    private final DataType[] types;

    PushedRowWriterFactory(DataWriterFactory inner, DataType[] types) {
        this.inner = inner;
        this.types = types;
    }

    public DataWriter createWriter(int partition, long task) {
        return new PushedRowWriter(inner.createWriter(partition, task), types);
    }
}

/** The write of a statement. Each row is its kind, the old row and the new row. */
class RowChangeWrite implements DeltaWriteBuilder, DeltaWrite, DeltaBatchWrite {
    private final StructType columns;
    private final TableBatchWrite inner;

    RowChangeWrite(StoredTable table, LogicalWriteInfo info, RowLevelOperation.Command command) {
        this.columns = table.columns;
        StructField[] fields = columns.fields();
        StructType given = new StructType().add("_kind", DataTypes.ByteType, false);
        for (int i = 0; i < fields.length; i++) given = given.add(StoredTable.OLD + fields[i].name(), fields[i].dataType(), true);
        for (int i = 0; i < fields.length; i++) given = given.add(fields[i].name(), fields[i].dataType(), true);
        this.inner = new TableBatchWrite(
            new WriteInfo(info, given, table.with(info.options())).with("row-changes", command.name()), false);
    }

    public DeltaWrite build() { return this; }

    public DeltaBatchWrite toBatch() { return this; }

    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        DataType[] types = new DataType[columns.fields().length];
        for (int i = 0; i < types.length; i++) types[i] = columns.fields()[i].dataType();
        return new RowChangeWriterFactory(inner.createBatchWriterFactory(physical), types);
    }

    public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }

    public void commit(WriterCommitMessage[] messages) { inner.commit(messages); }

    public void abort(WriterCommitMessage[] messages) { inner.abort(messages); }
}

class RowChangeWriterFactory implements DeltaWriterFactory {
    private final DataWriterFactory inner;
    private final DataType[] types;

    RowChangeWriterFactory(DataWriterFactory inner, DataType[] types) {
        this.inner = inner;
        this.types = types;
    }

    public DeltaWriter createWriter(int partition, long task) {
        return new RowChangeWriter(inner.createWriter(partition, task), types);
    }
}

/** Spark pushes rows, and Python's writer pulls them, in a thread of its own; a few chunks wait between the two. */
class PushedRowWriter implements DataWriter {
    static final int CHUNK = 256;

    final DataType[] types;
    private final DataWriter inner;
    private final WaitingRows waiting = new WaitingRows();
    private final Feeder feeder;
    private List chunk = new ArrayList();

    PushedRowWriter(DataWriter inner, DataType[] types) {
        this.inner = inner;
        this.types = types;
        this.feeder = new Feeder(inner, waiting, TaskContext.get());
        feeder.setDaemon(true);
        feeder.start();
    }

    public void write(Object row) throws IOException {
        Object[] values = new Object[types.length];
        copy((InternalRow) row, values, 0);
        add(values);
    }

    void add(Object[] values) throws IOException {
        chunk.add(new GenericInternalRow(values));
        if (chunk.size() == CHUNK) hand();
    }

    // Spark gives the same object for each row.
    void copy(InternalRow row, Object[] values, int from) {
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

class RowChangeWriter extends PushedRowWriter implements DeltaWriter {
    static final byte INSERT = 0, UPDATE = 2, DELETE = 3;

    RowChangeWriter(DataWriter inner, DataType[] types) { super(inner, types); }

    public void delete(Object metadata, Object id) throws IOException { change(DELETE, (InternalRow) metadata, null); }

    public void update(Object metadata, Object id, Object row) throws IOException {
        change(UPDATE, (InternalRow) metadata, (InternalRow) row);
    }

    public void insert(Object row) throws IOException { change(INSERT, null, (InternalRow) row); }

    public void write(Object row) throws IOException { insert(row); }

    private void change(byte kind, InternalRow old, InternalRow row) throws IOException {
        Object[] values = new Object[1 + 2 * types.length];
        values[0] = Byte.valueOf(kind);
        copy(old, values, 1);
        copy(row, values, 1 + types.length);
        add(values);
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
