package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of partitions as texts for Python, and from its JSON. */
class PartitionValues {
    private static final DateTimeFormatter CLOCK = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");

    /** A value of a filter. A moment is written in UTC, whatever the time zone of the session or of the JVM. */
    static String text(Object value) {
        if (value instanceof Timestamp) return text(((Timestamp) value).toInstant());
        if (value instanceof Instant) return CLOCK.format(LocalDateTime.ofInstant((Instant) value, ZoneOffset.UTC));
        if (value instanceof LocalDateTime) return CLOCK.format((LocalDateTime) value);
        return internalText(value);
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
