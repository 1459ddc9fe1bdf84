import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.paimon.flink.action.ActionBase;
import org.apache.paimon.flink.action.ActionFactory;

import java.util.Arrays;

/** A Paimon action on a Flink of this one process: Peer PARALLELISM CHECKPOINT_SECONDS ACTION FLAGS... */
public final class Peer {
    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", args[1] + " s");
        configuration.setString("taskmanager.memory.network.fraction", "0.1");
        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(args[0]), configuration);
        ActionBase action = (ActionBase) ActionFactory.createAction(Arrays.copyOfRange(args, 2, args.length)).get();
        action.withStreamExecutionEnvironment(environment);
        action.run();
    }
}
