package penstock.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
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
    private final boolean onDelete;
    private final boolean onUpdate;

    /** A column that Spark preserves for rows that a statement deletes, or updates. */
    HiddenColumn(StructField field, boolean onDelete, boolean onUpdate) {
        this.field = field;
        this.onDelete = onDelete;
        this.onUpdate = onUpdate;
    }

    /** The metadata columns of Paimon. A column of the table with the same name hides one. */
    static StructField[] ofPaimon(StructType columns, StructField[] keys, boolean ofFiles, boolean ofRows) {
        StructType partition = new StructType();
        for (int i = 0; i < keys.length; i++) partition = partition.add(keys[i].name(), keys[i].dataType(), true);
        StructType known = new StructType();
        if (ofFiles) {
            known = known.add("__paimon_file_path", DataTypes.StringType, true)
                .add("__paimon_row_index", DataTypes.LongType, true);
        }
        known = known.add("__paimon_partition", partition, true).add("__paimon_bucket", DataTypes.IntegerType, true);
        if (ofRows) {
            known = known.add("_ROW_ID", DataTypes.LongType, true).add("_SEQUENCE_NUMBER", DataTypes.LongType, true);
        }
        StructField[] all = known.fields();
        Set own = new HashSet(Arrays.asList(columns.fieldNames()));
        List made = new ArrayList();
        for (int i = 0; i < all.length; i++) if (!own.contains(all[i].name())) made.add(all[i]);
        return (StructField[]) made.toArray(new StructField[0]);
    }

    public String name() { return field.name(); }

    public DataType dataType() { return field.dataType(); }

    public boolean isNullable() { return field.nullable(); }

    // Spark writes null for a column that is not preserved, so it reads the column only if the statement names it. MERGE
    // needs a default for a NOT NULL column of the rows that it inserts; nobody reads this default.
    public String metadataInJSON() {
        ObjectNode node = Request.JSON.createObjectNode();
        node.put(PRESERVE_ON_DELETE, onDelete);
        node.put(PRESERVE_ON_UPDATE, onUpdate);
        if (!field.nullable()) {
            String none = field.dataType().equals(DataTypes.StringType) ? "''" : "-1L";
            node.put("CURRENT_DEFAULT", none);
            node.put("EXISTS_DEFAULT", none);
        }
        return node.toString();
    }
}
