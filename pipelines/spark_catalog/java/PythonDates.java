package penstock.spark;

import java.math.BigInteger;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDateTime;
import org.apache.spark.sql.sources.Filter;
import scala.Product;

/** The range of Python's dates: PySpark cannot read a filter with a day or timestamp outside of it. */
class PythonDates {
    // One day less at both ends, because a timestamp may be shown in any time zone.
    private static final long FIRST_DAY = -719161, LAST_DAY = 2932895;
    private static final BigInteger DAY = BigInteger.valueOf(86400000000000L);

    static boolean exceededBy(Object part) {
        if (part instanceof Object[]) {
            Object[] values = (Object[]) part;
            for (int i = 0; i < values.length; i++) if (exceededBy(values[i])) return true;
            return false;
        }
        if (part instanceof Filter) {
            Product members = (Product) part;
            for (int i = 0; i < members.productArity(); i++) if (exceededBy(members.productElement(i))) return true;
            return false;
        }
        BigInteger number = PartitionValues.number(part);
        if (number == null) return false;
        boolean moment = part instanceof Timestamp || part instanceof Instant || part instanceof LocalDateTime;
        long days = (moment ? number.divide(DAY) : number).longValue();
        return days < FIRST_DAY || days > LAST_DAY;
    }
}
