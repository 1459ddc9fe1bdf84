import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN, one node of each. Arguments: the port of the name node, the folder for what clients have to know. */
class Yarn {
    private static final int READY_MILLIS = 60_000;

    public static void main(String[] words) throws Exception {
        var settings = settings();
        var files = new MiniDFSCluster.Builder(settings, Path.of("dfs").toAbsolutePath().toFile())
                .nameNodePort(Integer.parseInt(words[0])).numDataNodes(1).build();
        settings.set("fs.defaultFS", files.getFileSystem().getUri().toString());
        var yarn = new MiniYARNCluster("penstock", 1, 1, 1);
        yarn.init(settings);
        yarn.start();
        if (!yarn.waitForNodeManagersToConnect(READY_MILLIS)) {
            throw new IllegalStateException("the node manager did not connect");
        }
        Runtime.getRuntime().addShutdownHook(new Thread(yarn::stop));  // and the containers it runs
        var told = Files.createDirectories(Path.of(words[1]));
        write(told.resolve("core-site.xml"), settings, "fs.defaultFS");
        write(told.resolve("yarn-site.xml"), yarn.getConfig(), "yarn.resourcemanager.address",
                "yarn.resourcemanager.scheduler.address", "yarn.resourcemanager.webapp.address");
        Thread.currentThread().join();
    }

    private static Configuration settings() {
        var settings = new YarnConfiguration();
        settings.setInt("dfs.replication", 1);
        settings.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 8192);
        settings.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        // A container that takes more than it asked for is killed, as on a cluster in earnest.
        settings.setBoolean("yarn.nodemanager.pmem-check-enabled", true);
        settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        settings.set("yarn.scheduler.capacity.root.queues", "default");
        settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
        settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");
        settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
        return settings;
    }

    private static void write(Path site, Configuration from, String... names) throws IOException {
        var only = new Configuration(false);
        for (var name : names) {
            only.set(name, from.get(name));
        }
        var half = site.resolveSibling(site.getFileName() + ".half");
        try (var out = Files.newOutputStream(half)) {
            only.writeXml(out);
        }
        Files.move(half, site);
    }
}
