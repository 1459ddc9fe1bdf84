package penstock.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** A column that a query has to name: SELECT * does not show it. */
class HiddenColumn implements MetadataColumn {
    private final StructField field;

    HiddenColumn(StructField field) { this.field = field; }

    /** The metadata columns of Paimon. A column of the table with the same name hides one. */
    static StructField[] ofPaimon(StructType columns, StructField[] keys) {
        StructType partition = new StructType();
        for (int i = 0; i < keys.length; i++) partition = partition.add(keys[i].name(), keys[i].dataType(), true);
        StructField[] all = new StructType()
            .add("__paimon_file_path", DataTypes.StringType, true)
            .add("__paimon_row_index", DataTypes.LongType, true)
            .add("__paimon_partition", partition, true)
            .add("__paimon_bucket", DataTypes.IntegerType, true).fields();
        Set own = new HashSet(Arrays.asList(columns.fieldNames()));
        List made = new ArrayList();
        for (int i = 0; i < all.length; i++) if (!own.contains(all[i].name())) made.add(all[i]);
        return (StructField[]) made.toArray(new StructField[0]);
    }

    static MetadataColumn[] all(StructField[] some, StructField[] others) {
        MetadataColumn[] made = new MetadataColumn[some.length + others.length];
        for (int i = 0; i < some.length; i++) made[i] = new HiddenColumn(some[i]);
        for (int i = 0; i < others.length; i++) made[some.length + i] = new HiddenColumn(others[i]);
        return made;
    }

    public String name() { return field.name(); }

    public DataType dataType() { return field.dataType(); }

    public boolean isNullable() { return field.nullable(); }
}
