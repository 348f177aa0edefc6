package controller

import (
	"encoding/json"
	"mime"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// asJSON returns a body of a request or an answer as JSON, and the content type of that. It returns nil for protobuf or
// YAML that cannot be read, and does not check JSON.
func asJSON(body []byte, contentType string, codec runtime.Decoder) ([]byte, string) {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case strings.HasSuffix(media, "protobuf"):
		object, _, err := codec.Decode(body, nil, nil)
		if err != nil {
			return nil, runtime.ContentTypeJSON
		}
		encoded, err := json.Marshal(object)
		if err != nil {
			return nil, runtime.ContentTypeJSON
		}
		return encoded, runtime.ContentTypeJSON
	case strings.HasSuffix(media, "yaml"):
		encoded, err := yaml.ToJSON(body)
		if err != nil {
			return nil, contentType
		}
		return encoded, contentType // A JSON document is YAML, too, so the content type of an apply stays.
	}
	return body, contentType
}
