package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of partitions as texts for Python, and from its JSON. */
class PartitionValues {
    /**
     * A day as days since 1970, a timestamp as nanoseconds since 1970; null for values of other types.
     *
     * Spark makes java.sql.Date and Timestamp by the old calendar, in which days before 1582 have other numbers. Their
     * texts are of the time zone of the JVM, and have no sign for years before 1.
     */
    static BigInteger number(Object value) {
        if (value instanceof Date) return BigInteger.valueOf(DateTimeUtils.fromJavaDate((Date) value));
        if (value instanceof LocalDate) return BigInteger.valueOf(((LocalDate) value).toEpochDay());
        if (value instanceof Timestamp) return nanos(DateTimeUtils.fromJavaTimestamp((Timestamp) value));
        if (value instanceof Instant) return nanos(DateTimeUtils.instantToMicros((Instant) value));
        if (value instanceof LocalDateTime) return nanos(DateTimeUtils.localDateTimeToMicros((LocalDateTime) value));
        return null;
    }

    private static BigInteger nanos(long micros) { return BigInteger.valueOf(micros).multiply(BigInteger.valueOf(1000)); }

    /** A value of a filter; days and timestamps as numbers. */
    static String text(Object value) {
        BigInteger number = number(value);
        return number == null ? internalText(value) : number.toString();
    }

    /** A value in Spark's internal form. Each byte becomes one character. */
    static String internalText(Object value) {
        if (value instanceof byte[]) return new String((byte[]) value, StandardCharsets.ISO_8859_1);
        return value.toString();
    }

    static Object of(JsonNode node, DataType type) {
        if (node.isNull()) return null;
        if (type.equals(DataTypes.StringType)) return UTF8String.fromString(node.asText());
        if (type.equals(DataTypes.BinaryType)) return node.asText().getBytes(StandardCharsets.ISO_8859_1);
        if (type.equals(DataTypes.BooleanType)) return Boolean.valueOf(node.asBoolean());
        if (type.equals(DataTypes.ByteType)) return Byte.valueOf((byte) node.asInt());
        if (type.equals(DataTypes.ShortType)) return Short.valueOf((short) node.asInt());
        if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) return Integer.valueOf(node.asInt());
        if (type instanceof DecimalType) {
            return Decimal.apply(new BigDecimal(node.asText()), ((DecimalType) type).precision(), ((DecimalType) type).scale());
        }
        if (type.equals(DataTypes.FloatType)) return Float.valueOf((float) node.asDouble());
        if (type.equals(DataTypes.DoubleType)) return Double.valueOf(node.asDouble());
        return Long.valueOf(node.asLong());
    }
}
