package sources

import (
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// jsonList is a list of a kind that no scheme knows.
type jsonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           any `json:"items"` // a pointer to a slice of the kind's type, which is decoded into
}

func newJSONList(item reflect.Type) *jsonList {
	return &jsonList{Items: reflect.New(reflect.SliceOf(item)).Interface()}
}

// DeepCopyObject is for the interface alone: such a list is only decoded into.
func (l *jsonList) DeepCopyObject() runtime.Object { copied := *l; return &copied }

// kept is a list, or a page of one, of what is kept of its objects. The list itself can be
// freed then: of a list in pages, no more than one is whole in memory.
func (w *watcher) kept(list runtime.Object) (*internalversion.List, error) {
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("a %T is no list: %w", list, err)
	}
	made := &internalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion: head.GetResourceVersion(), Continue: head.GetContinue(), RemainingItemCount: head.GetRemainingItemCount(),
	}}
	err = eachOf(list, func(item runtime.Object) error {
		object, isObject := item.(streams.Object)
		if !isObject {
			return fmt.Errorf("a %T is not a Kubernetes object", item)
		}
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // Some lists repeat it, events do not have it.
		kept, err := Kept(w.kind, w.options, object)
		made.Items = append(made.Items, kept)
		return err
	})
	return made, err
}

// eachOf visits the objects of a list, each in memory of its own: one that is kept must not
// keep the others alive.
func eachOf(list runtime.Object, visit func(runtime.Object) error) error {
	unknown, is := list.(*jsonList)
	if !is {
		return meta.EachListItemWithAlloc(list, visit)
	}
	items := reflect.ValueOf(unknown.Items).Elem()
	for i := range items.Len() {
		if err := visit(items.Index(i).Interface().(runtime.Object)); err != nil {
			return err
		}
	}
	return nil
}
