package penstock.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A view that the catalog keeps, for Spark, which runs its query. */
class CatalogView {
    private CatalogView() {}

    /** Names of the query without a catalog or a database are those of the view. */
    static View of(String catalog, Identifier identifier, JsonNode described) {
        StructType columns = (StructType) DataType.fromJson(Request.at(described, "schema").asText());
        Map properties = Request.strings(Request.at(described, "properties"));
        View.Builder builder = new View.Builder();
        builder.withSchema(columns);
        builder.withProperties(properties);
        builder.withQueryText(Request.at(described, "query").asText());
        builder.withCurrentCatalog(catalog);
        builder.withCurrentNamespace(identifier.namespace());
        builder.withSqlConfigs(new HashMap());
        builder.withQueryColumnNames(new String[0]);
        return builder.build();
    }

    /** Adds what Spark's parser made of the statement to a request. */
    static Request described(Request request, String catalog, View view) {
        request.with("query", view.queryText()).with("schema", view.schema().json()).with("properties", view.properties());
        request.asked.put("of_this_catalog", catalog.equals(view.currentCatalog()));
        return request.with("current_database", String.join(".", view.currentNamespace()));
    }
}
