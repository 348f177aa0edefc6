package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// jsonList is a list of a kind whose type is in no scheme.
type jsonList struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	metav1.ListMeta `json:"metadata"`
	Items           any `json:"items"` // a pointer to a slice of the kind's type, into which the items are decoded
}

// GetObjectKind returns a kind that cannot be set, because client-go's decoder clears the kind of what it
// has decoded.
func (l *jsonList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

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
	if _, err := versionOf(list); err != nil {
		return err
	}
	if untyped, is := list.(*jsonList); is { // client-go has not compared its kind.
		if err := k.isListKind(untyped.APIVersion, untyped.Kind); err != nil {
			return err
		}
	}
	if meta.LenList(list) > 0 {
		return nil
	}
	body, err := answer.Raw()
	if err != nil {
		return err
	}
	return k.isEmptyList(body)
}

// isListKind checks the type of an answer.
func (k Kind) isListKind(version, kind string) error {
	expected := k.listKind
	if expected.Empty() {
		expected = k.GroupVersion().WithKind(k.Kind + "List")
	}
	switch wantedVersion, wanted := expected.ToAPIVersionAndKind(); {
	case kind == "":
		return fmt.Errorf("%w: it has no kind", errNoList)
	case version != wantedVersion, kind != wanted && !(k.mayNameItsList() && strings.HasSuffix(kind, "List")):
		return fmt.Errorf("%w: it is a %s of %s", errNoList, kind, version)
	}
	return nil
}

// mayNameItsList reports whether the kind may be a custom resource, whose definition may give its list
// any name.
func (k Kind) mayNameItsList() bool {
	return k.listKind.Empty() && strings.Contains(k.Group, ".") && !strings.HasSuffix(k.Group, ".k8s.io")
}

// isEmptyList checks that an answer which holds no objects is an empty list.
func (k Kind) isEmptyList(body []byte) error {
	if encoded, isProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); isProtobuf {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(encoded); err != nil {
			return fmt.Errorf("%w: %w", errNoList, err)
		}
		return k.isListKind(unknown.APIVersion, unknown.Kind)
	}
	var head struct {
		metav1.TypeMeta
		Items json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("%w: %w", errNoList, err)
	}
	if err := k.isListKind(head.APIVersion, head.Kind); err != nil {
		return err
	}
	if head.Items == nil {
		return fmt.Errorf("%w: it has no items", errNoList)
	}
	return nil
}

// List requests a list of the kind, or a page of one, in one namespace, or in all if namespace is empty.
// client is one that [Kind.Client] has made. An answer that is not a list of the kind is an error.
func (k Kind) List(ctx context.Context, client rest.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	if !k.isRegular() {
		_ = k.Locate(ctx, client) // If it fails, the answer to the list shows why.
	}
	return k.listed(ctx, client.Get().
		NamespaceIfScoped(namespace, k.Namespaced() && namespace != "").
		Resource(k.Resource()).
		VersionedParams(&options, metav1.ParameterCodec))
}

// listed sends a request for a list, or for a page of one, and checks the answer.
func (k Kind) listed(ctx context.Context, request *rest.Request) (runtime.Object, error) {
	list, err := k.NewList()
	if err != nil {
		return nil, err
	}
	if k.form == MetadataOnly {
		request.SetHeader("Accept", acceptMetadataList)
	}
	result := request.Do(ctx)
	if err := result.Into(list); err != nil {
		return nil, because(ctx, err)
	}
	if err := k.isListOf(list, result); err != nil {
		return list, err
	}
	k.at.served.Store(true)
	return list, nil
}

// EachItem visits the objects of a list of the kind, in the form that is kept. Each object has memory
// of its own, so that a kept object does not keep the others alive. EachItem fails if the list holds
// an object of another kind.
func (k Kind) EachItem(list runtime.Object, visit func(streams.Object) error) error {
	return k.eachItem(list, nil, visit)
}

// eachItem does what EachItem does. It calls arrived, unless that is nil, with each object as the API server sent it.
func (k *Kind) eachItem(list runtime.Object, arrived func(streams.Object), visit func(streams.Object) error) error {
	return eachOf(list, func(item runtime.Object) error {
		object, isObject := item.(streams.Object)
		if !isObject {
			return fmt.Errorf("a %T is not a Kubernetes object", item)
		}
		if kind := object.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Kind != k.Kind && k.form != MetadataOnly {
			return fmt.Errorf("%w: it holds a %v", errNoList, kind)
		}
		if reflect.TypeOf(object) != reflect.TypeFor[*unstructured.Unstructured]() { // Some lists set it on each item; events do not.
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		if arrived != nil {
			arrived(object)
		}
		kept, err := k.projected(object)
		if err != nil {
			return err
		}
		return visit(kept)
	})
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
	if sharded, is := head.(metav1.ShardedListInterface); is && w.options.Selecting.server() != "" {
		w.status.ServerSelects.Store(sharded.GetShardInfo() != nil)
	}
	keep, selection := w.options.keep(), w.options.Selecting.current()
	arrived := func(object streams.Object) { w.options.OnObject(object, nil) }
	if w.options.OnObject == nil {
		arrived = nil
	}
	err = w.kind.eachItem(list, arrived, func(kept streams.Object) error {
		if keep(kept); !selection.Has(kept) {
			return nil
		}
		made.Items = append(made.Items, kept)
		return nil
	})
	return made, err
}

// eachOf visits the objects of a list, each with memory of its own.
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
