package penstock.spark;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.expressions.MutableAggregationBuffer;
import org.apache.spark.sql.expressions.UserDefinedAggregateFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Registering this function adds the refusals to a session of Spark Connect, whose client has no JVM. It computes nothing. */
@SuppressWarnings("deprecation")
public class SessionNamesFunction extends UserDefinedAggregateFunction {
    public SessionNamesFunction() { SessionRules.addTo(SparkSession.active()); }

    public StructType inputSchema() { return new StructType(); }

    public StructType bufferSchema() { return new StructType(); }

    public DataType dataType() { return DataTypes.NullType; }

    public boolean deterministic() { return true; }

    public void initialize(MutableAggregationBuffer buffer) {}

    public void update(MutableAggregationBuffer buffer, Row row) {}

    public void merge(MutableAggregationBuffer buffer, Row row) {}

    public Object evaluate(Row row) { return null; }
}
