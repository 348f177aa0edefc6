package cache

import (
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/types"
)

// degree of the trees: a node of 31 pairs is cheap to copy on write and well filled.
const degree = 16

// separator stands between the parts of a tree's key. No name of Kubernetes contains it,
// and it sorts before all that they contain.
const separator = "\x00"

type tree = btree.Map[string, streams.Object]

// view is one state of one kind: objects by key (see keyOf), and by index value. Once
// it is published nothing changes it; copies share what they have in common.
type view struct {
	indexers []Indexer
	objects  *tree
	indexes  []*tree // as indexers; by value, separator, key
	version  string  // everything up to this resource version is in it, as a list or a bookmark said
	listed   bool    // it holds a complete list
	required string  // what the server said is current when the list was asked for
}

func newView(indexers []Indexer) *view {
	v := &view{indexers: indexers, objects: btree.NewMap[string, streams.Object](degree)}
	for range indexers {
		v.indexes = append(v.indexes, btree.NewMap[string, streams.Object](degree))
	}
	return v
}

// copy is a view that can be changed without changing this one. It takes constant time.
func (v *view) copy() *view {
	copied := *v
	copied.objects = v.objects.Copy()
	copied.indexes = make([]*tree, len(v.indexes))
	for i, index := range v.indexes {
		copied.indexes[i] = index.Copy()
	}
	return &copied
}

func (v *view) put(key string, object streams.Object) {
	old, replaced := v.objects.Set(key, object)
	for i, indexer := range v.indexers {
		values := indexer.Values(object)
		if replaced {
			for _, value := range indexer.Values(old) {
				if !slices.Contains(values, value) {
					v.indexes[i].Delete(value + separator + key)
				}
			}
		}
		for _, value := range values {
			v.indexes[i].Set(value+separator+key, object)
		}
	}
}

func (v *view) remove(key string) {
	old, removed := v.objects.Delete(key)
	if !removed {
		return
	}
	for i, indexer := range v.indexers {
		for _, value := range indexer.Values(old) {
			v.indexes[i].Delete(value + separator + key)
		}
	}
}

// index is the tree of an index, or nil.
func (v *view) index(name string) *tree {
	for i, indexer := range v.indexers {
		if indexer.Name == name {
			return v.indexes[i]
		}
	}
	return nil
}

// scan calls visit for what a tree holds under a prefix, in order.
func scan(in *tree, prefix string, visit func(key string, object streams.Object)) {
	in.Ascend(prefix, func(key string, object streams.Object) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		visit(key[len(prefix):], object)
		return true
	})
}

// keyOf is the "metanamespace" key of an object. Its separator is not "/", so that the
// order of keys is that of namespaces, then names: "a" comes before "a-b".
func keyOf(name types.NamespacedName) string { return name.Namespace + separator + name.Name }

func nameOf(object streams.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
