package page

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// decoder reads the objects of a recording.
type decoder struct {
	scheme *runtime.Scheme
	codec  runtime.Decoder
}

func newDecoder(scheme *runtime.Scheme) decoder {
	return decoder{scheme, serializer.NewCodecFactory(scheme).UniversalDeserializer()}
}

// object returns the object of a record.
func (d decoder) object(of *recording.Object) (streams.Object, error) {
	for _, version := range d.scheme.PrioritizedVersionsForGroup(of.Key.Group) {
		empty, err := d.scheme.New(version.WithKind(of.Key.Kind))
		if err != nil {
			continue
		}
		object, is := empty.(streams.Object)
		proto, has := empty.(interface{ Unmarshal(encoded []byte) error })
		switch {
		case !is || of.IsProto && !has:
			continue
		case of.IsProto:
			err = proto.Unmarshal(of.Body)
		default:
			err = json.Unmarshal(of.Body, object)
		}
		if err == nil {
			return object, nil
		}
	}
	if of.IsProto {
		return nil, fmt.Errorf("%s is in protobuf, and this program does not know its kind", of.Key)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(of.Body, &object.Object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", of.Key, err)
	}
	if object.Object == nil {
		return nil, fmt.Errorf("reading %s: it is empty", of.Key)
	}
	return object, nil
}

var errNoObject = errors.New("the answer is no object")

// written is what the answer to a write says about the object.
type written struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// answer returns the key and the version of the object in an answer.
func (d decoder) answer(of *recording.Exchange) (key streams.Key, version string, err error) {
	var made written
	if json.Unmarshal(of.Answer, &made) != nil { // It may be in protobuf.
		decoded, kind, err := d.codec.Decode(of.Answer, nil, nil)
		if err != nil {
			return key, "", errNoObject
		}
		object, is := decoded.(streams.Object)
		if !is {
			return key, "", errNoObject
		}
		key = streams.KeyOf(kind.GroupKind(), object)
		return key, object.GetResourceVersion(), nil
	}
	if made.Metadata.Name == "" || made.Kind == "Status" {
		return key, "", errNoObject
	}
	group, err := schema.ParseGroupVersion(made.APIVersion)
	if err != nil {
		return key, "", errNoObject
	}
	key.GroupKind = schema.GroupKind{Group: group.Group, Kind: made.Kind}
	key.Namespace, key.Name = made.Metadata.Namespace, made.Metadata.Name
	return key, made.Metadata.ResourceVersion, nil
}
