package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// jsonList is a list of a kind whose type is in no scheme.
type jsonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           any `json:"items"` // a pointer to a slice of the kind's type, into which the items are decoded
}

func newJSONList(item reflect.Type) *jsonList {
	return &jsonList{Items: reflect.New(reflect.SliceOf(item)).Interface()}
}

// DeepCopyObject implements runtime.Object. It copies no items, because a jsonList is only decoded
// into.
func (l *jsonList) DeepCopyObject() runtime.Object { copied := *l; return &copied }

// versionOf returns the resource version of a list.
func versionOf(list runtime.Object) (string, error) {
	listed, err := meta.ListAccessor(list)
	if err != nil {
		return "", fmt.Errorf("a %T has no resource version: %w", list, err)
	}
	return listed.GetResourceVersion(), nil
}

// errNoList marks an answer to a list request that is something else.
var errNoList = errors.New("the answer is not a list of the kind; check for a proxy in front of the API server")

// isListOf checks that an answer is a list of the kind. For another answer, client-go may leave the
// list empty. An empty list would delete everything.
func (k Kind) isListOf(list runtime.Object, answer rest.Result) error {
	version, err := versionOf(list)
	if err != nil {
		return err
	}
	if unknown, is := list.(*jsonList); is && unknown.Kind == "Status" {
		return fmt.Errorf("%w: it is a Status", errNoList)
	}
	if version != "" || meta.LenList(list) > 0 {
		return nil
	}
	body, err := answer.Raw()
	if err != nil {
		return err
	}
	return k.isHeadOf(body)
}

// isHeadOf checks the type of an answer that holds no objects and no version.
func (k Kind) isHeadOf(body []byte) error {
	var head struct {
		metav1.TypeMeta
		Items *json.RawMessage `json:"items"`
	}
	if encoded, isProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); isProtobuf {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(encoded); err != nil {
			return fmt.Errorf("%w: %w", errNoList, err)
		}
		head.APIVersion, head.Kind = unknown.APIVersion, unknown.Kind
	} else if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("%w: %w", errNoList, err)
	}
	expected := k.listKind
	if expected.Empty() { // The list of a custom resource may have any kind.
		expected = k.GroupVersion().WithKind(head.Kind)
	}
	version, named := expected.ToAPIVersionAndKind()
	switch {
	case head.Kind == "" && head.Items != nil, head.Kind == named && head.Kind != "" && head.APIVersion == version:
		return nil
	case head.Kind == "":
		return fmt.Errorf("%w: it has neither a kind nor items", errNoList)
	}
	return fmt.Errorf("%w: it is a %s of %s", errNoList, head.Kind, head.APIVersion)
}

// kept returns a list, or a page of one, with the objects in the form that is kept. The decoded
// list can then be freed: of a paged list, at most one page is in memory whole.
func (w *watcher) kept(list runtime.Object) (*internalversion.List, error) {
	head, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("a %T is not a list: %w", list, err)
	}
	made := &internalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion: head.GetResourceVersion(), Continue: head.GetContinue(), RemainingItemCount: head.GetRemainingItemCount(),
	}}
	err = eachOf(list, func(item runtime.Object) error {
		object, isObject := item.(streams.Object)
		if !isObject {
			return fmt.Errorf("a %T is not a Kubernetes object", item)
		}
		if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Kind != w.kind.Kind && w.kind.form != MetadataOnly {
			return fmt.Errorf("%w: it holds a %v", errNoList, kind)
		}
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // Some lists set it on each item; events do not.
		kept, err := AsWatched(w.kind, w.options, object)
		made.Items = append(made.Items, kept)
		return err
	})
	return made, err
}

// eachOf visits the objects of a list. Each object has memory of its own, so that a kept object
// does not keep the others alive.
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
