package controller

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/internal/readiness"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The bounds of a tree, and of a list of roots.
const (
	maxNodes     = 20_000
	maxDepth     = 64
	defaultRoots = 200
	maxRoots     = 1000
)

// judging is a projection that knows whether its whole object is ready. why says why it is not.
type judging interface {
	IsReady() (ready bool, why string)
}

// tree answers with an object of the cache and the objects that it owns. The query has the object, as RESOURCE/NAME, and its
// namespace. Without an object it answers with the objects that controllers reconcile. With follow=true further answers follow: see
// followTree.
func (m *Manager) tree(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	follows := query.Get("follow") == "true"
	var answer any
	if object := query.Get("object"); object == "" {
		if follows {
			http.Error(w, "follow is for one object; name it with object=RESOURCE/NAME", http.StatusBadRequest)
			return
		}
		limit, err := defaultRoots, error(nil)
		if text := query.Get("limit"); text != "" {
			limit, err = strconv.Atoi(text)
		}
		if err != nil || limit < 1 || limit > maxRoots {
			http.Error(w, fmt.Sprintf("limit is %s; allowed is 1 to %d", query.Get("limit"), maxRoots), http.StatusBadRequest)
			return
		}
		answer = m.roots(query.Get("namespace"), query.Get("search"), limit)
	} else {
		resource, name, isNamed := strings.Cut(object, "/")
		if !isNamed || resource == "" || name == "" {
			http.Error(w, "object is "+object+"; give RESOURCE/NAME, such as deployments.apps/web", http.StatusBadRequest)
			return
		}
		kinds := m.watchedKindsOf(resource)
		if len(kinds) == 0 {
			http.Error(w, fmt.Sprintf("no controller watches %s; there are controllers of %s", resource, strings.Join(m.reconciledKinds(), ", ")), http.StatusNotFound)
			return
		}
		named := types.NamespacedName{Namespace: query.Get("namespace"), Name: name}
		root, _, found := m.treeOf(kinds, named)
		if !found {
			http.Error(w, fmt.Sprintf("no controller's cache has %s in the namespace %q; look at its name and its namespace", object, query.Get("namespace")), http.StatusNotFound)
			return
		}
		if follows {
			m.followTree(w, request, resource, named)
			return
		}
		answer = root
	}
	encoded, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		http.Error(w, "the tree cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(encoded, '\n')) // The client may have gone.
}

// isNamed reports whether a user names a kind by a resource: by its plural or its name, with its group or without it.
func (w *watched) isNamed(resource string) bool {
	resource, group, hasGroup := strings.Cut(strings.ToLower(resource), ".")
	return (resource == w.kind.Resource() || resource == strings.ToLower(w.kind.Kind)) && (!hasGroup || group == w.kind.Group)
}

// watchedKindsOf returns the kinds in the cache that a user names.
func (m *Manager) watchedKindsOf(resource string) (found []*watched) {
	for _, watched := range m.present.Load().watches {
		if watched.isNamed(resource) && watched.store() != nil {
			found = append(found, watched)
		}
	}
	return found
}

// treeOf returns the tree of the first object with a name, and the identities of its objects.
func (m *Manager) treeOf(kinds []*watched, name types.NamespacedName) (root introspection.Node, in map[types.UID]bool, found bool) {
	for _, kind := range kinds {
		named := name
		if !kind.kind.Namespaced() {
			named.Namespace = ""
		}
		store := kind.store()
		if store == nil {
			continue
		}
		if root, found := store.Get(named); found {
			grown := growth{manager: m, stores: m.cache.Stores(), partial: map[schema.GroupKind]bool{}, seen: map[types.UID]bool{}}
			return grown.node(store.Kind(), root, 0), grown.seen, true
		}
	}
	return introspection.Node{}, nil, false
}

// growth is a tree that grows.
type growth struct {
	manager *Manager
	stores  []*cache.Store
	partial map[schema.GroupKind]bool // whether the cache keeps a part of a kind alone
	seen    map[types.UID]bool
}

// node returns an object and what it owns. Each object has one place, so that cycles end.
func (g *growth) node(kind schema.GroupKind, object streams.Object, depth int) introspection.Node {
	made := g.leaf(kind, object)
	uid := object.GetUID()
	if uid == "" {
		return made
	}
	g.seen[uid] = true
	for _, store := range g.stores {
		for _, child := range store.ByIndex(cache.OwnerIndex, string(uid)) {
			if g.seen[child.GetUID()] || depth >= maxDepth || len(g.seen) >= maxNodes {
				made.LeftOut = true
				continue
			}
			made.Children = append(made.Children, g.node(store.Kind(), child, depth+1))
		}
	}
	slices.SortFunc(made.Children, compareNodes)
	return made
}

func compareNodes(a, b introspection.Node) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// leaf returns an object without what it owns.
func (g *growth) leaf(kind schema.GroupKind, object streams.Object) introspection.Node {
	made := readiness.NodeOf(kind, object)
	partial, known := g.partial[kind]
	if !known {
		partial = g.manager.isPartial(kind)
		g.partial[kind] = partial
	}
	judge, judges := object.(judging)
	switch {
	case judges:
		is, why := judge.IsReady()
		made.Ready, made.Message = readiness.Name(is), why
	case partial:
		made.Ready, made.Reason, made.Message = introspection.Unknown, "KeptInPart", "the cache keeps a part of the object alone"
	default:
		readiness.Judge(&made, object)
	}
	return made
}

// roots returns objects of the kinds that controllers reconcile, whose namespace/name contains a text.
func (m *Manager) roots(namespace, search string, limit int) introspection.Roots {
	found := introspection.Roots{Objects: []introspection.Node{}}
	grown := growth{manager: m, partial: map[schema.GroupKind]bool{}}
	for _, kind := range m.reconciledWatches() {
		store := kind.store()
		if store == nil {
			continue
		}
		for _, object := range store.List(namespace) {
			if search != "" && !strings.Contains(object.GetNamespace()+"/"+object.GetName(), search) {
				continue
			}
			if found.Total++; len(found.Objects) < limit {
				found.Objects = append(found.Objects, grown.leaf(store.Kind(), object))
			}
		}
	}
	return found
}

// reconciledWatches returns the kinds that controllers reconcile, each once, by name.
func (m *Manager) reconciledWatches() (watches []*watched) {
	for _, member := range m.present.Load().members {
		if member.reconciled != nil {
			watches = append(watches, member.reconciled)
		}
	}
	nameOf := func(of *watched) string { return of.kind.GroupKind().String() }
	slices.SortFunc(watches, func(a, b *watched) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return slices.CompactFunc(watches, func(a, b *watched) bool { return nameOf(a) == nameOf(b) })
}
