package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// location is where the API server serves a kind. All copies of a [Kind] share it. Until the server
// confirms the plural and the scope, they are assumptions or given by options.
type location struct {
	resource   atomic.Pointer[string]
	unscoped   atomic.Bool // the kind has no namespaces
	served     atomic.Bool // the server has answered a request with this plural
	scopeKnown atomic.Bool
}

// maxLocate bounds the time that the API server has to say where it serves a kind.
const maxLocate = 10 * time.Second

// Resource returns the plural of the kind in URLs, such as "statefulsets". It is the regular plural, or
// the one of [Plural], until the API server has named another one: see [Kind.Locate].
func (k Kind) Resource() string { return *k.at.resource.Load() }

// Namespaced reports whether the kind has namespaces. It is assumed to have them, unless
// [ClusterScoped] says otherwise, until the API server has shown the scope: see [Kind.Locate].
func (k Kind) Namespaced() bool { return !k.at.unscoped.Load() }

// ScopeKnown reports whether Namespaced is certain: an option or the API server has shown the scope.
func (k Kind) ScopeKnown() bool { return k.at.scopeKnown.Load() }

// Locate asks the API server for the plural and the scope of the kind, unless they are known already. It
// costs at most one request, or two if the server does not serve the kind. Until it has succeeded, the
// assumptions remain. What [Plural] and [ClusterScoped] say stays. client is one that [Kind.Client] has
// made. Locate may be called from any goroutine.
//
// A watch needs no such request in the common case: a list confirms the plural, and the first object
// shows the scope. It calls Locate if the server does not know the plural. If discovery fails after a list
// was answered, the assumptions become final.
func (k Kind) Locate(ctx context.Context, client rest.Interface) error {
	if k.at.served.Load() && k.at.scopeKnown.Load() {
		return nil
	}
	found, err := k.find(ctx, client)
	if k.at.served.Load() && errors.Is(err, ErrNotServed) || apierrors.IsForbidden(err) {
		k.at.scopeKnown.Store(true) // Asking again would not show more.
	}
	if err != nil {
		return err
	}
	if k.plural == "" {
		k.at.resource.Store(&found.Name)
	}
	k.at.unscoped.Store(k.cluster || !found.Namespaced)
	k.at.served.Store(true)
	k.at.scopeKnown.Store(true)
	return nil
}

// IsServed asks the API server whether it serves the kind, and returns nil if it does. If it does not, the
// error is ErrNotServed. IsServed may be called from any goroutine.
func (k Kind) IsServed(ctx context.Context, client rest.Interface) error {
	_, err := k.find(ctx, client)
	return err
}

// find asks for the resource of the kind.
func (k Kind) find(ctx context.Context, client rest.Interface) (metav1.APIResource, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxLocate, errNoAnswer)
	defer cancel()
	root := "/apis/" + k.Group
	if k.Group == "" {
		root = "/api"
	}
	var served metav1.APIResourceList
	err := ask(ctx, client, root+"/"+k.Version, &served)
	if err != nil && !apierrors.IsNotFound(err) {
		return metav1.APIResource{}, fmt.Errorf("finding where %v is served: %w", k.GroupVersionKind, because(ctx, err))
	}
	for _, resource := range served.APIResources {
		if resource.Kind == k.Kind && resource.Name != "" && !strings.Contains(resource.Name, "/") {
			return resource, nil
		}
	}
	if versions := k.versions(ctx, client, root); versions != "" {
		return metav1.APIResource{}, fmt.Errorf("%w: %v; the group has %s", ErrNotServed, k.GroupVersionKind, versions)
	}
	return metav1.APIResource{}, fmt.Errorf("%w: %v", ErrNotServed, k.GroupVersionKind)
}

// ErrNotServed is the error of a kind that the API server does not serve.
var ErrNotServed = errors.New("the API server does not serve the kind")

// Address sets the path of a request for the kind: its namespace, if it has one, and its plural. It first
// calls Locate if the request depends on what is not known yet; if Locate fails, the answer to the request
// shows why. request is one of client, which [Kind.Client] has made.
func (k Kind) Address(ctx context.Context, client rest.Interface, request *rest.Request, namespace string) *rest.Request {
	if !k.isRegular() || namespace == "" && k.Namespaced() {
		_ = k.Locate(ctx, client)
	}
	return request.NamespaceIfScoped(namespace, k.Namespaced()).Resource(k.Resource())
}

// Given returns what the options Plural and ClusterScoped said about the kind.
func (k Kind) Given() (plural string, clusterScoped bool) { return k.plural, k.cluster }

// isRegular reports whether the plural is certain: it was confirmed or given, or the group is one of
// Kubernetes' own. Their plurals are regular, except in the group of resource metrics.
func (k Kind) isRegular() bool {
	own := !strings.Contains(k.Group, ".") || strings.HasSuffix(k.Group, ".k8s.io") && !strings.HasSuffix(k.Group, "metrics.k8s.io")
	return own || k.plural != "" || k.at.served.Load()
}

// LocatedAs makes the kind share the plural and the scope of another kind, as far as they are known. It is for
// two Go types of one kind.
func LocatedAs(other Kind) KindOption { return func(k *Kind) { k.at = other.at } }

// versions returns the other versions in which the API server serves the kind's group, as text.
func (k Kind) versions(ctx context.Context, client rest.Interface, root string) string {
	var group metav1.APIGroup
	if k.Group == "" || ask(ctx, client, root, &group) != nil {
		return ""
	}
	var names []string
	for _, version := range group.Versions {
		if version.Version != k.Version {
			names = append(names, version.Version)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// ask requests a document of the API server's discovery.
func ask(ctx context.Context, client rest.Interface, path string, into any) error {
	answer, err := client.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// sees records the scope of an object that the server has sent.
func (l *location) sees(object streams.Object) {
	if !l.scopeKnown.Load() {
		l.unscoped.Store(object.GetNamespace() == "")
		l.scopeKnown.Store(true)
	}
}

// isUnknownPath reports whether a request failed because the API server does not know its path. It answers
// in plain text, or by a Status without a kind and a name if it knows the version of the group. A Status about
// a missing object has both.
func isUnknownPath(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || details != nil && details.Kind == "" && details.Name == ""
}

// relocated reports whether the API server serves the kind under another plural than err, the answer to a
// request or nil, is about. Otherwise it returns err, perhaps with what the server does serve. If the kind
// has no namespaces, and the watch is one of a namespace, relocated ends the watch.
func (w *watcher) relocated(ctx context.Context, err error) (moved bool, explained error) {
	if !isUnknownPath(err) || w.isMisplaced() || w.kind.at.served.Load() {
		return false, err
	}
	before := w.kind.Resource()
	switch located := w.kind.Locate(ctx, w.client); {
	case errors.Is(located, ErrNotServed):
		return false, fmt.Errorf("%w: %w", located, err)
	case located != nil: // Discovery may be forbidden, or fail; the answer to the request counts.
		return false, err
	case w.isMisplaced():
		return false, err
	}
	return w.kind.Resource() != before, err
}

// isMisplaced ends the watch of a namespace if the kind has none.
func (w *watcher) isMisplaced() bool {
	if w.namespace == "" || w.kind.Namespaced() {
		return false
	}
	w.misplaced.Store(true)
	w.leave()
	return true
}
