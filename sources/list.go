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

// versionOf returns the resource version of a list.
func versionOf(list runtime.Object) (string, error) {
	listed, err := meta.ListAccessor(list)
	if err != nil {
		return "", fmt.Errorf("a %T has no resource version: %w", list, err)
	}
	return listed.GetResourceVersion(), nil
}

// errNoList is in the error of a list that was answered with something else.
var errNoList = errors.New("the answer is no list of the kind; is there a proxy before the API server?")

// isListOf checks that an answer is a list of the kind. What is not, client-go may leave as the
// empty list that it was to be decoded into; taken for that, it would delete everything.
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

// isHeadOf checks an answer that holds no objects, and no version.
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
	if expected.Empty() { // The list of a custom resource may have any name.
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
		if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Kind != w.kind.Kind && w.kind.form != MetadataOnly {
			return fmt.Errorf("%w: it holds a %v", errNoList, kind)
		}
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // Some lists repeat it, events do not have it.
		kept, err := AsWatched(w.kind, w.options, object)
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
