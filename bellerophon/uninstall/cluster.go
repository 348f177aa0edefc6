package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/hero"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
	chart         = "bellerophon-operator"
	shardsLabel   = "bellerophon.io/shards"

	// releaseNamespace is where Helm says which release an object belongs to.
	releaseNamespace = "meta.helm.sh/release-namespace"
)

var (
	finalizers  = hero.Finalizers
	definitions = []string{"heroes.stable.bellerophon.io", "sheroes.stable.simple-bellerophon.io"}

	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	deployments        = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	leases             = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	secrets            = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	roles              = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}

	validating = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	mutating   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// resources are the kinds of the chart, apart from the definitions. What grants permissions goes last.
var resources = []schema.GroupVersionResource{
	deployments,
	validating,
	mutating,
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"},
	{Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "configmaps"},
	secrets,
	roleBindings,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	roles,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Version: "v1", Resource: "serviceaccounts"},
}

// item is an object of the cluster, and its resource.
type item struct {
	*unstructured.Unstructured
	resource schema.GroupVersionResource
}

// kind is a kind of the operator, as the cluster has it.
type kind struct {
	definition *unstructured.Unstructured
	resource   schema.GroupVersionResource // of the stored version
	objects    []unstructured.Unstructured
}

// cluster is the cluster that an operator is taken out of.
type cluster struct {
	client  dynamic.Interface
	options Options
}

func newCluster(config *rest.Config, options Options) (*cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return &cluster{client, options}, nil
}

// list lists objects with some labels, in all namespaces if namespace is empty. A cluster that does not have the resource
// has none.
func (c *cluster) list(ctx context.Context, resource schema.GroupVersionResource, namespace, labels string) (found []item, err error) {
	listed, err := c.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	for i := range listed.Items {
		found = append(found, item{&listed.Items[i], resource})
	}
	return found, nil
}

// release returns the objects of the release: what the chart has, the webhook configurations that the operator may have
// created again, its Leases, and the records of Helm.
func (c *cluster) release(ctx context.Context) (found []item, err error) {
	byHelm := false
	for _, resource := range resources {
		listed, err := c.list(ctx, resource, "", nameLabel+"="+chart+","+instanceLabel+"="+c.options.Release)
		if err != nil {
			return nil, err
		}
		for _, each := range listed {
			if c.isOurs(each) || resource == roles && isBound(each, found) {
				found = append(found, each)
				byHelm = byHelm || each.GetAnnotations()[releaseNamespace] != ""
			}
		}
		if found, err = c.addNamed(ctx, found, resource); err != nil {
			return nil, err
		}
	}
	held, err := c.list(ctx, leases, c.options.Namespace, "")
	if err != nil {
		return nil, err
	}
	group := c.options.Release
	for _, lease := range held {
		if lease.GetName() == group || lease.GetLabels()[shardsLabel] == group {
			found = append(found, lease)
		}
	}
	if !byHelm {
		return found, nil
	}
	records, err := c.list(ctx, secrets, c.options.Namespace, "owner=helm,name="+c.options.Release)
	return append(found, records...), err
}

// addNamed adds the configuration of webhooks, which has no labels if the operator has created it again.
func (c *cluster) addNamed(ctx context.Context, found []item, resource schema.GroupVersionResource) ([]item, error) {
	name := c.options.Release + "-webhooks." + c.options.Namespace
	if resource != validating && resource != mutating || slices.ContainsFunc(found, func(i item) bool { return i.resource == resource && i.GetName() == name }) {
		return found, nil
	}
	held, err := c.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", resource.GroupResource(), name, err)
	}
	return append(found, item{held, resource}), nil
}

// isOurs reports whether an object with the labels of the release is of the release in this namespace. Releases in other
// namespaces may have the same name.
func (c *cluster) isOurs(found item) bool {
	if of := found.GetAnnotations()[releaseNamespace]; of != "" {
		return of == c.options.Namespace
	}
	if found.GetNamespace() == c.options.Namespace {
		return true
	}
	if found.resource == roleBindings { // Of an operator that watches one namespace.
		var binding rbacv1.RoleBinding
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &binding)
		return err == nil && slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == c.options.Namespace })
	}
	name := found.GetName()
	return found.GetNamespace() == "" && (strings.HasPrefix(name, "bellerophon:"+c.options.Namespace+":") ||
		name == c.options.Namespace+"-"+c.options.Release || name == c.options.Release+"-webhooks."+c.options.Namespace || name == c.options.Release+"-heroes."+c.options.Namespace)
}

// isBound reports whether a Role has the name of a RoleBinding of the release, as in the chart. A Role names no release.
func isBound(role item, found []item) bool {
	return slices.ContainsFunc(found, func(i item) bool {
		return i.resource == roleBindings && i.GetNamespace() == role.GetNamespace() && i.GetName() == role.GetName()
	})
}

// kinds returns the kinds of the operator that the cluster has, with their objects.
func (c *cluster) kinds(ctx context.Context) (found []kind, err error) {
	for _, name := range definitions {
		definition, err := c.client.Resource(definitionResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
		of := kind{definition: definition}
		plural, group, _ := strings.Cut(name, ".")
		of.resource = schema.GroupVersionResource{Group: group, Version: storedVersion(definition), Resource: plural}
		listed, err := c.client.Resource(of.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", name, err)
		}
		of.objects = listed.Items
		found = append(found, of)
	}
	return found, nil
}

// storedVersion returns the version that the API server stores.
func storedVersion(definition *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if version["storage"] == true {
			name, _ := version["name"].(string)
			return name
		}
	}
	return ""
}

// others returns the namespaces of other operators of the same kinds.
func (c *cluster) others(ctx context.Context) (namespaces []string, err error) {
	found, err := c.list(ctx, deployments, "", nameLabel+"="+chart)
	if err != nil {
		return nil, err
	}
	for _, each := range found {
		if each.GetNamespace() != c.options.Namespace || each.GetLabels()[instanceLabel] != c.options.Release {
			namespaces = append(namespaces, each.GetNamespace())
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

// checkOperator returns an error if objects wait for an operator that does not run.
func (c *cluster) checkOperator(release []item, kinds []kind) error {
	waiting := 0
	for _, of := range kinds {
		for i := range of.objects {
			if len(finalizersOf(&of.objects[i])) > 0 {
				waiting++
			}
		}
	}
	for _, found := range release {
		ready, _, _ := unstructured.NestedInt64(found.Object, "status", "readyReplicas")
		if found.resource == deployments && ready > 0 {
			return nil
		}
	}
	if waiting == 0 {
		return nil
	}
	return fmt.Errorf("%d objects have a finalizer that only the operator removes, and no replica of the operator in %s is ready; start it, or give --force, which leaves out last backups", waiting, c.options.Namespace)
}

// converts reports whether the webhooks of the release convert a kind.
func (c *cluster) converts(of kind) bool {
	text := func(path ...string) string {
		found, _, _ := unstructured.NestedString(of.definition.Object, append([]string{"spec", "conversion"}, path...)...)
		return found
	}
	return text("strategy") == "Webhook" && text("webhook", "clientConfig", "service", "namespace") == c.options.Namespace &&
		text("webhook", "clientConfig", "service", "name") == c.options.Release+"-webhooks"
}

// isGone reports whether an error says that there is no such object, or no such kind.
func isGone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
