package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Seq;

/** The catalog for Spark. It knows nothing about tables: Python answers each request, and Spark's Python data source reads and writes. */
public class PenstockCatalog implements StagingTableCatalog, RelationCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
    static final String PUSH_DOWN = "spark.sql.python.filterPushdown.enabled";
    static final String SESSION_OPTION = "spark.paimon.";
    String name;
    private Map options;
    private volatile Set stateOptions;

    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
        this.options = new HashMap(options.asCaseSensitiveMap());
        SQLConf settings = SQLConf.get();
        if (!settings.contains(PUSH_DOWN)) settings.setConfString(PUSH_DOWN, "true");
    }

    public String name() { return name; }

    public String[] defaultNamespace() { return new String[] {"default"}; }

    Request request(String verb) { return new Request(verb, options); }

    // functions: sys.max_pt, and the one by which Spark sends changes to tasks

    public Identifier[] listFunctions(String[] namespace) { return new Identifier[0]; }

    public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
        if (identifier.name().equals(BucketFunction.NAME)) return new BucketFunction();
        if (!String.join(".", identifier.namespace()).equals("sys")) throw new NoSuchFunctionException(identifier);
        if (!identifier.name().equalsIgnoreCase(NewestPartition.NAME)) NewestPartition.refuseOther(identifier.name());
        return new NewestPartition(this);
    }

    // databases

    public String[][] listNamespaces() {
        String[] found = Request.texts(request("databases").answer());
        String[][] names = new String[found.length][];
        for (int i = 0; i < names.length; i++) names[i] = new String[] {found[i]};
        return names;
    }

    public String[][] listNamespaces(String[] namespace) {
        return namespace.length == 0 ? listNamespaces() : new String[0][];
    }

    public boolean namespaceExists(String[] namespace) {
        return namespace.length == 0 || !request("database").database(namespace).answer().isNull();
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        JsonNode found = request("database").database(namespace).answer();
        if (found.isNull()) throw new NoSuchNamespaceException(namespace);
        return Request.strings(found);
    }

    public void createNamespace(String[] namespace, Map metadata) {
        try {
            request("create_database").database(namespace).with("properties", metadata).answer();
        } catch (Throwable error) {
            // With IF NOT EXISTS, Spark logs the error of a database that exists, with all its lines.
            error.setStackTrace(new StackTraceElement[0]);
            Platform.throwException(error);
        }
    }

    public void alterNamespace(String[] namespace, NamespaceChange... changes) {
        Request request = request("alter_database").database(namespace);
        ObjectNode changed = request.asked.putObject("changes");
        for (int i = 0; i < changes.length; i++) {
            if (changes[i] instanceof NamespaceChange.SetProperty) {
                NamespaceChange.SetProperty set = (NamespaceChange.SetProperty) changes[i];
                changed.put(set.property(), set.value());
            } else {
                changed.putNull(((NamespaceChange.RemoveProperty) changes[i]).property());
            }
        }
        request.answer();
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        Request request = request("drop_database").database(namespace);
        request.asked.put("cascade", cascade);
        return request.answer().asBoolean();
    }

    // tables

    public Identifier[] listTables(String[] namespace) {
        String[] found = Request.texts(request("tables").database(namespace).answer());
        Identifier[] names = new Identifier[found.length];
        for (int i = 0; i < names.length; i++) names[i] = Identifier.of(namespace, found[i]);
        return names;
    }

    public Set capabilities() {
        return new HashSet(Arrays.asList(new Object[] {
            TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT, TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE}));
    }

    PenstockTable load(Identifier identifier, Map given) throws NoSuchTableException {
        return load(identifier, given, false, false);
    }

    /**
     * With newest, the options of the session are only checked: a statement changes the newest rows, whatever the session
     * reads. With tableOnly, a view of this name is refused: the statement cannot mean one, and Spark would find nothing.
     */
    private PenstockTable load(Identifier identifier, Map given, boolean newest, boolean tableOnly)
            throws NoSuchTableException {
        Request request = request("describe").table(identifier).with("read", given)
            .with("catalog", name).with("session", sessionOptions());
        request.asked.put("newest", newest).put("table_only", tableOnly);
        JsonNode described = request.answer();
        if (described.isNull()) throw new NoSuchTableException(identifier);
        return PenstockTable.of(this, identifier, described);
    }

    /** The options that the session sets for reads of tables, as spark.paimon.KEY. */
    private static Map sessionOptions() {
        Map found = new HashMap();
        scala.collection.Iterator entries = SQLConf.get().getAllConfs().iterator();
        while (entries.hasNext()) {
            scala.Tuple2 entry = (scala.Tuple2) entries.next();
            if (((String) entry._1()).startsWith(SESSION_OPTION)) found.put(entry._1(), entry._2());
        }
        return found;
    }

    public Table loadTable(Identifier identifier) throws NoSuchTableException {
        return load(identifier, new HashMap());
    }

    public Table loadTable(Identifier identifier, String version) throws NoSuchTableException {
        Map given = new HashMap();
        given.put("scan.version", version);
        return load(identifier, given);
    }

    public Table loadTable(Identifier identifier, long micros) throws NoSuchTableException {
        Map given = new HashMap();
        given.put("scan.timestamp-millis", String.valueOf(Math.floorDiv(micros, 1000L)));
        return load(identifier, given);
    }

    public Table loadTable(Identifier identifier, TableContext context, CaseInsensitiveStringMap options)
            throws NoSuchTableException {
        Map given = withoutTimeTravel(options);
        if (context.timeTravel().isPresent()) {
            TimeTravel travel = (TimeTravel) context.timeTravel().get();
            if (travel instanceof TimeTravel.AsOfVersion) {
                given.put("scan.version", ((TimeTravel.AsOfVersion) travel).version());
            } else {
                long micros = ((TimeTravel.AsOfTimestamp) travel).micros();
                given.put("scan.timestamp-millis", String.valueOf(Math.floorDiv(micros, 1000L)));
            }
        }
        boolean writes = !context.writePrivileges().isEmpty();
        PenstockTable table = load(identifier, given, writes, writes || !given.isEmpty());
        if (table instanceof StoredTable) ((StoredTable) table).changed = changesRows(context.writePrivileges());
        return table;
    }

    /** The options of a read without versionAsOf and timestampAsOf, which Spark has made a part of the context. */
    static Map withoutTimeTravel(CaseInsensitiveStringMap options) {
        Map kept = new HashMap();
        Iterator entries = options.asCaseSensitiveMap().entrySet().iterator();
        while (entries.hasNext()) {
            Map.Entry entry = (Map.Entry) entries.next();
            String key = (String) entry.getKey();
            boolean travels = key.equalsIgnoreCase(SQLConf.get().getConfString("spark.sql.timeTravelVersionKey"))
                || key.equalsIgnoreCase(SQLConf.get().getConfString("spark.sql.timeTravelTimestampKey"));
            if (!travels) kept.put(key, entry.getValue());
        }
        return kept;
    }

    private static boolean changesRows(Set privileges) {
        return privileges.contains(TableWritePrivilege.UPDATE) || privileges.contains(TableWritePrivilege.DELETE);
    }

    /** The options of a read that change the columns or the snapshot of a table: Spark loads it with them. */
    public Set tableStateOptionKeys() {
        if (stateOptions == null) {
            stateOptions = new HashSet(Arrays.asList(Request.texts(request("state_options").answer())));
        }
        return stateOptions;
    }

    public boolean tableExists(Identifier identifier) {
        return request("table_exists").table(identifier).answer().asBoolean();
    }

    private PenstockTable loadNow(Identifier identifier) {
        try {
            return load(identifier, new HashMap());
        } catch (NoSuchTableException gone) {
            throw new IllegalStateException(gone);
        }
    }

    public Table createTable(Identifier identifier, TableInfo info) {
        creation("create_table", identifier, info).answer();
        return loadNow(identifier);
    }

    private Request creation(String verb, Identifier identifier, TableInfo info) {
        Request request = request(verb).table(identifier).with("schema", info.schema().json());
        ArrayNode partitions = request.asked.putArray("partitions");
        for (int i = 0; i < info.partitions().length; i++) partitions.add(info.partitions()[i].describe());
        ArrayNode keys = request.asked.putArray("keys");
        for (int i = 0; i < info.constraints().length; i++) {
            if (info.constraints()[i] instanceof PrimaryKey) {
                PrimaryKey key = (PrimaryKey) info.constraints()[i];
                for (int j = 0; j < key.columns().length; j++) keys.add(String.join(".", key.columns()[j].fieldNames()));
            } else {
                Request.fail("only PRIMARY KEY is supported as a constraint, not "
                    + info.constraints()[i].toDDL() + "\n  to repair: remove it, or check rows before they are written", null);
            }
        }
        request.asked.put("row_format", RunningStatement.saysRowFormat());
        return request.with("properties", info.properties());
    }

    public Table createTableLike(Identifier identifier, TableInfo info, Table from) {
        if (!(from instanceof PenstockTable)) return createTable(identifier, info);
        if (!((PenstockTable) from).catalog.name.equals(name)) return createTable(identifier, info);
        Request request = request("create_table_like").table(identifier).with("properties", info.properties());
        Identifier like = ((PenstockTable) from).identifier;
        request.with("like", String.join(".", like.namespace()) + "." + like.name()).answer();
        return loadNow(identifier);
    }

    public Table alterTable(Identifier identifier, TableChange... changes) {
        Request request = request("alter_table").table(identifier);
        request.asked.put("by_statement", RunningStatement.alters());
        ArrayNode list = request.asked.putArray("changes");
        for (int i = 0; i < changes.length; i++) list.add(TableChanges.described(changes[i]));
        request.answer();
        return loadNow(identifier);
    }

    public boolean dropTable(Identifier identifier) {
        return request("drop_table").table(identifier).answer().asBoolean();
    }

    /** The same as DROP: no catalog of Penstock keeps deleted tables. */
    public boolean purgeTable(Identifier identifier) { return dropTable(identifier); }

    public void renameTable(Identifier from, Identifier to) {
        String[] database = to.namespace();
        // Spark passes the name of the catalog too if the statement has it.
        if (database.length > 1 && database[0].equals(name)) {
            database = (String[]) Arrays.copyOfRange(database, 1, database.length);
        }
        request("rename_table").table(from).with("to", String.join(".", database) + "." + to.name()).answer();
    }

    // CREATE TABLE AS: the table may have another name while rows are written, and is dropped if that fails

    public StagedTable stageCreate(Identifier identifier, TableInfo info) {
        String name = creation("create_staged", identifier, info).answer().asText();
        StoredTable created = (StoredTable) loadNow(Identifier.of(identifier.namespace(), name));
        if (!name.equals(identifier.name())) created.staged = identifier;
        created.created = true;
        return created;
    }

    // REPLACE TABLE: the new table has another name while rows are written, and is dropped if that fails

    public StagedTable stageReplace(Identifier identifier, TableInfo info) {
        JsonNode made = creation("create_replacement", identifier, info).answer();
        String name = Request.at(made, "name").asText();
        StoredTable created = (StoredTable) loadNow(Identifier.of(identifier.namespace(), name));
        created.replaced = identifier;
        created.created = true;
        created.since = Request.at(made, "since").asText();
        return created;
    }

    public StagedTable stageCreateOrReplace(Identifier identifier, TableInfo info) {
        return tableExists(identifier) ? stageReplace(identifier, info) : stageCreate(identifier, info);
    }

    // views that the catalog keeps

    /** A table, or the view of this name. Spark asks this for each name of a query. */
    public Relation loadRelation(Identifier identifier) throws NoSuchTableException {
        try {
            return (Relation) load(identifier, new HashMap());
        } catch (NoSuchTableException missing) {
            JsonNode described = request("view").table(identifier).answer();
            if (described.isNull()) throw missing;
            return CatalogView.of(name, identifier, described);
        }
    }

    public View loadView(Identifier identifier) throws NoSuchViewException {
        JsonNode described = request("view").table(identifier).answer();
        if (described.isNull()) throw new NoSuchViewException(identifier);
        return CatalogView.of(name, identifier, described);
    }

    public boolean viewExists(Identifier identifier) {
        return !request("view").table(identifier).answer().isNull();
    }

    public Identifier[] listViews(String[] namespace) {
        String[] found = Request.texts(request("views").database(namespace).answer());
        Identifier[] names = new Identifier[found.length];
        for (int i = 0; i < names.length; i++) names[i] = Identifier.of(namespace, found[i]);
        return names;
    }

    public boolean dropView(Identifier identifier) {
        return request("drop_view").table(identifier).answer().asBoolean();
    }

    public View createView(Identifier identifier, View view) {
        CatalogView.described(request("create_view").table(identifier), name, view).answer();
        return view;
    }

    /** Spark creates the view instead if it hears that there is none. */
    public View replaceView(Identifier identifier, View view) throws NoSuchViewException {
        if (!viewExists(identifier)) throw new NoSuchViewException(identifier);
        CatalogView.described(request("replace_view").table(identifier), name, view).answer();
        return view;
    }

    public void renameView(Identifier from, Identifier to) {
        Request request = request("rename_view").table(from).with("new_database", String.join(".", to.namespace()));
        request.with("new_table", to.name()).answer();
    }

    // procedures

    /** The database that the session uses, if it uses this catalog; else the default one. */
    String currentDatabase() {
        CatalogManager manager = SparkSession.active().sessionState().catalogManager();
        String[] database = manager.currentCatalog().name().equals(name) ? manager.currentNamespace() : defaultNamespace();
        return String.join(".", database);
    }

    /** The database of names in what is analyzed: that of the session, or the one in which a view was created. */
    String analyzedDatabase() {
        Seq view = AnalysisContext.get().catalogAndNamespace();
        if (view.isEmpty()) return currentDatabase();
        if (!view.apply(0).equals(name)) return String.join(".", defaultNamespace());
        String[] database = new String[view.size() - 1];
        for (int i = 0; i < database.length; i++) database[i] = (String) view.apply(i + 1);
        return String.join(".", database);
    }

    public Identifier[] listProcedures(String[] namespace) {
        String[] found = Request.texts(request("procedures").database(namespace).answer());
        Identifier[] names = new Identifier[found.length];
        for (int i = 0; i < names.length; i++) names[i] = Identifier.of(new String[] {"sys"}, found[i]);
        return names;
    }

    public UnboundProcedure loadProcedure(Identifier identifier) {
        JsonNode described = request("procedure").table(identifier).answer();
        return new PenstockProcedure(this, identifier.name(), described);
    }
}
