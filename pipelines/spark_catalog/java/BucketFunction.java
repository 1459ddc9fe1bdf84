package penstock.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/** penstock_bucket(number of buckets, bucket key ...): by its result, Spark sends the changes of a bucket to one task. */
class BucketFunction implements UnboundFunction {
    static final String NAME = "penstock_bucket";

    public String name() { return NAME; }

    public String description() { return "the bucket of a row by its bucket key"; }

    public BoundFunction bind(StructType input) {
        DataType[] types = new DataType[input.fields().length];
        for (int i = 0; i < types.length; i++) types[i] = input.fields()[i].dataType();
        return new BucketOfKey(types);
    }
}

/** Hashes the key as a BinaryRow. It only distributes rows to tasks: Python computes the bucket that a row is written to. */
class BucketOfKey implements ScalarFunction {
    private static final int SEED = 42;
    private static final int INLINE = 7;
    private final DataType[] types;

    BucketOfKey(DataType[] types) { this.types = types; }

    public String name() { return BucketFunction.NAME; }

    public String canonicalName() { return "penstock." + BucketFunction.NAME; }

    public DataType[] inputTypes() { return types; }

    public DataType resultType() { return DataTypes.IntegerType; }

    public boolean isResultNullable() { return false; }

    public Object produceResult(InternalRow row) {
        int columns = types.length - 1;
        int header = (columns + 63 + 8) / 64 * 8;
        byte[][] texts = new byte[columns][];
        int size = header + 8 * columns;
        int end = size;
        for (int i = 0; i < columns; i++) {
            texts[i] = text(row, i + 1);
            if (texts[i] != null && texts[i].length > INLINE) size += (texts[i].length + 7) / 8 * 8;
        }
        byte[] made = new byte[size];
        for (int i = 0; i < columns; i++) {
            long slot = (long) Platform.BYTE_ARRAY_OFFSET + header + 8L * i;
            if (row.isNullAt(i + 1)) {
                made[(i + 8) / 8] |= (byte) (1 << (i + 8) % 8);
            } else if (texts[i] == null) {
                Platform.putLong(made, slot, number(row, i + 1));
            } else if (texts[i].length <= INLINE) {
                System.arraycopy(texts[i], 0, made, header + 8 * i, texts[i].length);
                made[header + 8 * i + 7] = (byte) (0x80 | texts[i].length);
            } else {
                System.arraycopy(texts[i], 0, made, end, texts[i].length);
                Platform.putLong(made, slot, (long) end << 32 | texts[i].length);
                end += (texts[i].length + 7) / 8 * 8;
            }
        }
        int hash = Murmur3_x86_32.hashUnsafeWords(made, Platform.BYTE_ARRAY_OFFSET, size, SEED);
        return Integer.valueOf(Math.abs(hash % row.getInt(0)));
    }

    private byte[] text(InternalRow row, int place) {
        if (row.isNullAt(place)) return null;
        if (types[place].equals(DataTypes.StringType)) return row.getUTF8String(place).getBytes();
        return types[place].equals(DataTypes.BinaryType) ? row.getBinary(place) : null;
    }

    /** The value in the eight bytes of a column, the bytes above it being zero. */
    private long number(InternalRow row, int place) {
        DataType type = types[place];
        if (type instanceof BooleanType) return row.getBoolean(place) ? 1 : 0;
        if (type instanceof ByteType) return row.getByte(place) & 0xFFL;
        if (type instanceof ShortType) return row.getShort(place) & 0xFFFFL;
        if (type instanceof IntegerType || type instanceof DateType) return row.getInt(place) & 0xFFFFFFFFL;
        if (type instanceof LongType) return row.getLong(place);
        if (type instanceof DecimalType) {
            return row.getDecimal(place, ((DecimalType) type).precision(), ((DecimalType) type).scale()).toUnscaledLong();
        }
        throw new IllegalArgumentException(BucketFunction.NAME + " does not take " + type.simpleString());
    }
}
