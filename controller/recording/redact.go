package recording

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Redactor replaces values of Secrets by hashes with a key that is never stored. Equal values have equal hashes within
// one recording.
type Redactor struct{ key []byte }

func newRedactor() (*Redactor, error) {
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("recording: making a key: %w", err)
	}
	return &Redactor{key}, nil
}

// redactedPrefix begins each hash.
const redactedPrefix = "redacted:"

// secretKind is the kind whose values are hidden.
var secretKind = schema.GroupKind{Kind: "Secret"}

// IsSecret reports whether a kind has values that are hidden.
func IsSecret(kind schema.GroupKind) bool { return kind == secretKind }

// Object returns the JSON of a Secret with hashes for its values, in data, stringData, and the annotation of kubectl
// that repeats them.
func (r *Redactor) Object(encoded []byte) ([]byte, error) {
	var object any
	if err := json.Unmarshal(encoded, &object); err != nil {
		return nil, fmt.Errorf("recording: reading a Secret: %w", err)
	}
	made, err := json.Marshal(r.walk(object))
	if err != nil {
		return nil, fmt.Errorf("recording: writing a Secret: %w", err)
	}
	return made, nil
}

// Secret returns a Secret with hashes for its values. It does for the type what Object does for JSON.
func (r *Redactor) Secret(of *corev1.Secret) *corev1.Secret {
	made := of.DeepCopy()
	for name, value := range made.Data {
		made.Data[name] = []byte(r.hash(string(value), false))
	}
	for name, value := range made.StringData {
		made.StringData[name] = r.hash(value, false)
	}
	if text, has := made.Annotations[corev1.LastAppliedConfigAnnotation]; has {
		made.Annotations[corev1.LastAppliedConfigAnnotation] = r.hash(text, false)
	}
	return made
}

// walk replaces the values in an object, a list of objects, or a list of the operations of a JSON patch.
func (r *Redactor) walk(node any) any {
	switch node := node.(type) {
	case map[string]any:
		if _, isOperation := node["op"]; isOperation && node["path"] != nil {
			if _, has := node["value"]; has {
				node["value"] = r.hide(node["value"], true)
			}
			return node
		}
		for name, value := range node {
			switch name {
			case "data":
				node[name] = r.hide(value, true)
			case "stringData", "token":
				node[name] = r.hide(value, false)
			case corev1.LastAppliedConfigAnnotation:
				node[name] = r.hide(value, false)
			case "message":
				if _, isText := value.(string); isText && !isQuotable(node["reason"]) {
					node[name] = r.hide(value, false)
				}
			default:
				node[name] = r.walk(value)
			}
		}
	case []any:
		for i := range node {
			node[i] = r.walk(node[i])
		}
	}
	return node
}

// isQuotable reports whether the message of an answer with a reason names an object and no content.
func isQuotable(reason any) bool {
	text, _ := reason.(string)
	return slices.Contains([]metav1.StatusReason{metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict}, metav1.StatusReason(text))
}

// IsHidden reports whether a text is the hash of a value of a Secret.
func IsHidden(text string) bool { return strings.HasPrefix(text, redactedPrefix) }

// hide replaces each text within a value. isBase64 keeps it readable for a field of bytes.
func (r *Redactor) hide(value any, isBase64 bool) any {
	switch value := value.(type) {
	case string:
		return r.hash(value, isBase64)
	case map[string]any:
		for name := range value {
			value[name] = r.hide(value[name], isBase64)
		}
	case []any:
		for i := range value {
			value[i] = r.hide(value[i], isBase64)
		}
	}
	return value
}

func (r *Redactor) hash(text string, isBase64 bool) string {
	if isBase64 {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			text = string(decoded)
		}
	}
	if r == nil || IsHidden(text) {
		if isBase64 {
			return base64.StdEncoding.EncodeToString([]byte(text))
		}
		return text
	}
	mac := hmac.New(sha256.New, r.key)
	_, _ = mac.Write([]byte(text)) // A hash never fails.
	hidden := redactedPrefix + hex.EncodeToString(mac.Sum(nil)[:16])
	if isBase64 {
		return base64.StdEncoding.EncodeToString([]byte(hidden))
	}
	return hidden
}
