package penstock.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

/**
 * Reads a column once where a MERGE needs it twice: for the new row, and, under another name, as the old value.
 *
 * Both are the same value until MERGE computes the new row. Spark does not know that, and would read and shuffle both
 * for all rows of the table.
 */
class ReadOnce extends Rule {
    public TreeNode apply(TreeNode plan) {
        return (TreeNode) new AbstractFunction1() {
            public Object apply(Object node) {
                return node instanceof MergeRows ? merged((MergeRows) node) : ((TreeNode) node).mapChildren(this);
            }
        }.apply(plan);
    }

    private static TreeNode merged(MergeRows rows) {
        Map same = new HashMap();
        collect(rows.child(), same);
        if (same.isEmpty()) return rows;
        Replaced replaced = new Replaced(same);
        TreeNode child = read((TreeNode) rows.child(), replaced);
        TreeNode made = rows.mapChildren(new Child(child));
        return (TreeNode) ((QueryPlan) made).mapExpressions(replaced);
    }

    /** Adds the columns that a read below has under two names: the id of the old value, and the column. */
    private static void collect(Object plan, Map same) {
        if (plan instanceof DataSourceV2ScanRelation) {
            DataSourceV2ScanRelation read = (DataSourceV2ScanRelation) plan;
            if (!(read.scan() instanceof CountedScan)) return;
            Set old = ((CountedScan) read.scan()).old;
            Map named = new HashMap();
            for (int i = 0; i < read.output().size(); i++) {
                Attribute column = (Attribute) read.output().apply(i);
                named.put(column.name(), column);
            }
            for (int i = 0; i < read.output().size(); i++) {
                Attribute column = (Attribute) read.output().apply(i);
                Object other = old.contains(column.name()) ? named.get(column.name().substring(StoredTable.OLD.length())) : null;
                if (other != null) same.put(column.exprId(), other);
            }
        } else if (passes(plan)) {
            Seq children = ((TreeNode) plan).children();
            for (int i = 0; i < children.size(); i++) collect(children.apply(i), same);
        }
    }

    /** Returns whether a plan passes on the columns of the plans below it; a Project may add others. */
    private static boolean passes(Object plan) {
        return plan instanceof Project || plan instanceof Join
            || plan instanceof org.apache.spark.sql.catalyst.plans.logical.Filter;
    }

    private static TreeNode read(TreeNode plan, final Replaced replaced) {
        if (plan instanceof DataSourceV2ScanRelation) return narrowed((DataSourceV2ScanRelation) plan, replaced);
        if (!passes(plan)) return plan;
        TreeNode made = plan.mapChildren(new AbstractFunction1() {
            public Object apply(Object child) { return read((TreeNode) child, replaced); }
        });
        if (!(made instanceof Project)) return (TreeNode) ((QueryPlan) made).mapExpressions(replaced);
        Project project = (Project) made;
        List kept = new ArrayList();
        Set seen = new HashSet();
        for (int i = 0; i < project.projectList().size(); i++) {
            Object column = replaced.apply(project.projectList().apply(i));
            if (seen.add(((NamedExpression) column).exprId())) kept.add(column);
        }
        return with(project, 0, kept, null);
    }

    /** Returns the read without the columns that are replaced. */
    private static TreeNode narrowed(DataSourceV2ScanRelation read, Replaced replaced) {
        List kept = new ArrayList();
        Set names = new HashSet();
        for (int i = 0; i < read.output().size(); i++) {
            Attribute column = (Attribute) read.output().apply(i);
            if (replaced.same.containsKey(column.exprId())) names.add(column.name());
            else kept.add(column);
        }
        return names.isEmpty() ? read : with(read, 2, kept, ((CountedScan) read.scan()).without(names));
    }

    // The constructors differ between versions of Spark: all other arguments stay as they are.
    private static TreeNode with(TreeNode node, int place, List columns, CountedScan scan) {
        ArrayBuffer list = new ArrayBuffer();
        for (int i = 0; i < columns.size(); i++) list.addOne(columns.get(i));
        Object[] arguments = new Object[node.productArity()];
        for (int i = 0; i < arguments.length; i++) arguments[i] = node.productElement(i);
        arguments[place] = list.toSeq();
        if (scan != null) arguments[1] = scan;
        return node.makeCopy(arguments);
    }
}

class Child extends AbstractFunction1 {
    private final Object child;

    Child(Object child) { this.child = child; }

    public Object apply(Object old) { return child; }
}

/** Puts columns in the place of others in expressions. */
class Replaced extends AbstractFunction1 {
    final Map same;

    Replaced(Map same) { this.same = same; }

    public Object apply(Object expression) {
        if (!(expression instanceof AttributeReference)) return ((TreeNode) expression).mapChildren(this);
        Object other = same.get(((AttributeReference) expression).exprId());
        return other == null ? expression : other;
    }
}
