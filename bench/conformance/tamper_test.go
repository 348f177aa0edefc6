package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// isProgressing reports whether a status does not show finished servers.
func isProgressing(fields map[string]any) bool {
	conditions, _, _ := unstructured.NestedSlice(fields, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		is := condition.(map[string]any)
		return is["type"] == v1.ConditionReady && is["status"] != string(metav1.ConditionTrue)
	})
}

// asDryRun turns a write into a dry run, which changes nothing but gets the same answer.
func asDryRun(r *http.Request) {
	query := r.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	r.URL.RawQuery = query.Encode()
}

// body changes the body of each write of a resource.
func body(resource, subresource string, change func(map[string]any)) func(*http.Request, *request.RequestInfo) error {
	return func(r *http.Request, info *request.RequestInfo) error {
		if info.Resource != resource || info.Subresource != subresource || !slices.Contains([]string{"create", "update", "patch"}, info.Verb) {
			return nil
		}
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		fields := map[string]any{}
		if info.Verb == "patch" {
			err = json.Unmarshal(sent, &fields)
		} else { // The body may be protobuf.
			object, kind, e := scheme.Codecs.UniversalDeserializer().Decode(sent, nil, nil)
			if e != nil {
				return e
			}
			object.GetObjectKind().SetGroupVersionKind(*kind)
			sent, e = json.Marshal(object)
			err = errors.Join(e, json.Unmarshal(sent, &fields))
			r.Header.Set("Content-Type", "application/json")
		}
		if err != nil {
			return err
		}
		change(fields)
		if sent, err = json.Marshal(fields); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
		r.Header.Del("Content-Length")
		return nil
	}
}

// patchBody changes only the bodies of patches.
func patchBody(resource, subresource string, change func(map[string]any)) func(*http.Request, *request.RequestInfo) error {
	alter := body(resource, subresource, change)
	return func(r *http.Request, info *request.RequestInfo) error {
		if info.Verb != "patch" {
			return nil
		}
		return alter(r, info)
	}
}
