package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A read of the columns that a query needs. Python chooses the filters, through Spark's own code. */
class PrunedScanBuilder implements ScanBuilder, SupportsPushDownFilters, SupportsPushDownRequiredColumns {
    private final StructType all;
    private final CaseInsensitiveStringMap options;
    private final JsonNode rows;
    private final StructField[] metadata;
    private StructType columns;
    private Set old = new HashSet();
    private PythonScanBuilder filtered;

    PrunedScanBuilder(StructType all, StructField[] metadata, CaseInsensitiveStringMap options, JsonNode rows) {
        this.all = all;
        this.metadata = metadata;
        this.columns = all;
        this.options = options;
        this.rows = rows;
    }

    /** Returns the filters that Spark applies itself. Python accepts only filters on columns of the table. */
    public Filter[] pushFilters(Filter[] filters) {
        List left = new ArrayList();
        List asked = new ArrayList();
        for (int i = 0; i < filters.length; i++) (onMetadata(filters[i]) || PythonDates.exceededBy(filters[i]) ? left : asked).add(filters[i]);
        if (asked.isEmpty()) return filters;
        filtered = new PythonScanBuilder(Request.source(), Request.SOURCE, all, options);
        try {
            left.addAll(Arrays.asList(filtered.pushFilters((Filter[]) asked.toArray(new Filter[0]))));
        } catch (Throwable error) {
            Request.failPlainly(error);
        }
        return (Filter[]) left.toArray(new Filter[0]);
    }

    private boolean onMetadata(Filter filter) {
        String[] names = filter.references();
        for (int i = 0; i < names.length; i++) {
            for (int j = 0; j < metadata.length; j++) {
                if ((names[i] + ".").startsWith(metadata[j].name() + ".")) return true;
            }
        }
        return false;
    }

    public Filter[] pushedFilters() { return filtered == null ? new Filter[0] : filtered.pushedFilters(); }

    // Filters are pushed first, and refer to columns that are read: they stay, and Spark projects them away.
    public void pruneColumns(StructType required) {
        Set needed = new HashSet(Arrays.asList(required.fieldNames()));
        Filter[] taken = pushedFilters();
        for (int i = 0; i < taken.length; i++) {
            // The names in `references` have backquotes if they need them.
            String[][] paths = taken[i].v2references();
            for (int j = 0; j < paths.length; j++) needed.add(paths[j][0]);
        }
        if (needed.isEmpty()) needed.add(all.fields()[0].name());
        StructType kept = new StructType();
        StructField[] fields = all.fields();
        for (int i = 0; i < fields.length; i++) if (needed.contains(fields[i].name())) kept = kept.add(fields[i]);
        Set own = new HashSet(Arrays.asList(all.fieldNames()));
        for (int i = 0; i < fields.length; i++) {
            String name = StoredTable.OLD + fields[i].name();
            if (!needed.contains(name) || own.contains(name)) continue;
            kept = kept.add(name, fields[i].dataType(), true);
            old.add(name);
        }
        for (int i = 0; i < metadata.length; i++) if (needed.contains(metadata[i].name())) kept = kept.add(metadata[i]);
        if (needed.contains(StoredTable.FILE.name())) kept = kept.add(StoredTable.FILE);
        if (needed.contains(StoredTable.ROW.name())) kept = kept.add(StoredTable.ROW);
        columns = kept;
    }

    public Scan build() { return CountedScan.of(columns, old, options, pushedFilters(), rows); }
}

/** A read with a known size, so that Spark broadcasts small tables. */
class CountedScan extends PythonScan implements SupportsReportStatistics {
    /** The names of columns with old values. The table itself may have further columns with such names. */
    final Set old;
    private final StructType columns;
    private final CaseInsensitiveStringMap options;
    private final Filter[] filters;
    private final JsonNode rows;

    CountedScan(PythonDataSourceV2 source, StructType columns, Set old, CaseInsensitiveStringMap options, Filter[] filters, JsonNode rows) {
        super(source, Request.SOURCE, columns, options, filters);
        this.old = old;
        this.columns = columns;
        this.options = options;
        this.filters = filters;
        this.rows = rows;
    }

    /** A read with filters that Python has accepted. */
    static CountedScan of(StructType columns, Set old, CaseInsensitiveStringMap options, Filter[] filters, JsonNode rows) {
        PythonDataSourceV2 source = Request.source();
        if (filters.length > 0) new PythonScanBuilder(source, Request.SOURCE, columns, options).pushFilters(filters);
        return new CountedScan(source, columns, old, options, filters, rows);
    }

    /** The same read without some of its columns. */
    CountedScan without(Set names) {
        StructType kept = new StructType();
        for (int i = 0; i < columns.fields().length; i++) {
            if (!names.contains(columns.fields()[i].name())) kept = kept.add(columns.fields()[i]);
        }
        return of(kept, old, options, filters, rows);
    }

    /** What EXPLAIN shows behind the columns. */
    public String description() {
        return filters.length == 0 ? super.description() : super.description() + " PushedFilters: " + Arrays.toString(filters);
    }

    public Batch toBatch() { return new TableBatch(super.toBatch()); }

    public Statistics estimateStatistics() {
        return rows.isNull() ? new RowCount(-1, 0) : new RowCount(rows.asLong(), columns.defaultSize());
    }
}

class TableBatch implements Batch {
    private final Batch inner;

    TableBatch(Batch inner) { this.inner = inner; }

    public InputPartition[] planInputPartitions() {
        try {
            return inner.planInputPartitions();
        } catch (Throwable error) {
            Request.failPlainly(error);
            return null;
        }
    }

    public PartitionReaderFactory createReaderFactory() { return inner.createReaderFactory(); }
}

class RowCount implements Statistics {
    private final long rows;
    private final int width;

    RowCount(long rows, int width) {
        this.rows = rows;
        this.width = width;
    }

    public OptionalLong sizeInBytes() { return rows < 0 ? OptionalLong.empty() : OptionalLong.of(Math.max(1, rows * width)); }

    public OptionalLong numRows() { return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows); }
}
