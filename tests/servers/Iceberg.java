import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's own REST catalog on a port of loopback, over an SQLite file and a warehouse in a folder: Iceberg DIR PORT. */
public class Iceberg {
    public static void main(String[] arguments) throws Exception {
        String folder = arguments[0];
        Map<String, String> options = Map.of(
                "uri", "jdbc:sqlite:" + folder + "/names.db",
                "warehouse", "file:" + folder + "/warehouse",
                "jdbc.schema-version", "V1");
        Catalog catalog = CatalogUtil.loadCatalog(
                JdbcCatalog.class.getName(), "lake", options, new org.apache.hadoop.conf.Configuration());
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
