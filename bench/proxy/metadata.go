package proxy

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// metadata holds the fields of an object that the record needs.
type metadata struct {
	namespace, name string
	version         uint64
	generation      int64
}

// protobufMagic is the prefix of every object that Kubernetes encodes as protobuf.
var protobufMagic = []byte("k8s\x00")

// metadataOf reads the metadata of an object in JSON or protobuf. It returns the zero value for
// anything else, such as a Status in protobuf.
func metadataOf(object []byte) metadata {
	if raw, isProtobuf := bytes.CutPrefix(object, protobufMagic); isProtobuf {
		var envelope runtime.Unknown
		if envelope.Unmarshal(raw) != nil {
			return metadata{}
		}
		// All objects have their metadata in the same field as this type. It skips their other
		// fields.
		var partial metav1.PartialObjectMetadata
		if envelope.Kind == "Status" || partial.Unmarshal(envelope.Raw) != nil {
			return metadata{}
		}
		return metadata{partial.Namespace, partial.Name, parseVersion(partial.ResourceVersion), partial.Generation}
	}
	return fromJSON(gjson.GetBytes(object, "metadata"))
}

func fromJSON(found gjson.Result) (m metadata) {
	found.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "namespace":
			m.namespace = value.Str
		case "name":
			m.name = value.Str
		case "resourceVersion":
			m.version = parseVersion(value.Str)
		case "generation":
			m.generation = value.Int()
		}
		return true
	})
	return m
}

// parseVersion parses a resource version, and returns 0 if it is not a number. Versions are decimal
// numbers that can be compared since Kubernetes 1.35.
func parseVersion(text string) uint64 {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// eventOf reads the type of a watch event and the metadata of its object.
func eventOf(encoded []byte, isProtobuf bool) (kind string, object metadata) {
	if isProtobuf {
		var event metav1.WatchEvent
		if event.Unmarshal(encoded) != nil {
			return "", metadata{}
		}
		return event.Type, metadataOf(event.Object.Raw)
	}
	return gjson.GetBytes(encoded, "type").Str, fromJSON(gjson.GetBytes(encoded, "object.metadata"))
}
