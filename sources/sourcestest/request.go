package sourcestest

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// request is a parsed request of a client.
type request struct {
	*http.Request
	verb        string
	resource    schema.GroupVersionResource
	key         types.NamespacedName
	subresource string
	query       url.Values
	body        []byte
	form        form
	options     metav1.PatchOptions // of a write: the options of creations and updates are among them
}

// parse parses a request. A request that it does not support is an error.
func parse(raw *http.Request) (*request, error) {
	made := &request{Request: raw, query: raw.URL.Query()}
	if raw.Body != nil {
		defer raw.Body.Close()
		body, err := io.ReadAll(raw.Body)
		if err != nil {
			return nil, fmt.Errorf("reading the body of %s %s: %w", raw.Method, raw.URL.Path, err)
		}
		made.body = body
	}
	rest := strings.Split(strings.Trim(raw.URL.Path, "/"), "/")
	switch {
	case len(rest) >= 3 && rest[0] == "api":
		made.resource.Version, rest = rest[1], rest[2:]
	case len(rest) >= 4 && rest[0] == "apis":
		made.resource.Group, made.resource.Version, rest = rest[1], rest[2], rest[3:]
	default:
		return nil, errNoPage
	}
	// A third part is a resource in the namespace, or a subresource of the namespace itself.
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		made.key.Namespace, rest = rest[1], rest[2:]
	}
	rest = append(rest, "", "") // name and subresource
	made.resource.Resource, made.key.Name, made.subresource = rest[0], rest[1], rest[2]
	if len(rest) > 5 || made.subresource != "" && made.subresource != "status" {
		return nil, errNoPage
	}
	made.verb = made.verbOf(raw.Method)
	if made.verb == "" {
		return nil, apierrors.NewMethodNotSupported(made.resource.GroupResource(), raw.Method)
	}
	if err := made.readOptions(); err != nil {
		return nil, err
	}
	var acceptable bool
	made.form, acceptable = accepted(raw.Header.Values("Accept"))
	if !acceptable {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, made.verb, made.resource.GroupResource(), made.key.Name,
			"the fake API server answers in JSON; accept application/json, too", 0, false)
	}
	return made, nil
}

// readOptions reads the options of a creation, an update or a patch.
func (r *request) readOptions() error {
	if r.verb != "patch" && (r.verb != "create" && r.verb != "update" || len(r.query) == 0) {
		return nil
	}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&r.query, &r.options, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	kind, wrong := "CreateOptions", validation.ValidateCreateOptions(&metav1.CreateOptions{
		DryRun: r.options.DryRun, FieldManager: r.options.FieldManager, FieldValidation: r.options.FieldValidation,
	})
	switch r.verb {
	case "update":
		kind = "UpdateOptions"
	case "patch":
		kind, wrong = "PatchOptions", validation.ValidatePatchOptions(&r.options, types.PatchType(r.media()))
	}
	if len(wrong) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", wrong)
	}
	return nil
}

func (r *request) verbOf(method string) string {
	named := map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}
	watch, _ := strconv.ParseBool(r.query.Get("watch")) // An invalid value of watch means a list.
	switch {
	case r.key.Name != "":
		return named[method]
	case method == http.MethodPost:
		return "create"
	case method == http.MethodGet && watch:
		return "watch"
	case method == http.MethodGet:
		return "list"
	case method == http.MethodDelete:
		return "deletecollection"
	}
	return ""
}

// occasion returns the request as an occasion of a fault.
func (r *request) occasion(number int) occasion {
	return occasion{resource: r.resource.Resource, key: r.key, verb: r.verb, stream: r.stream(), number: number}
}

// stream returns a name that all equal requests share.
func (r *request) stream() string {
	return strings.Join([]string{r.verb, r.URL.Path, r.query.Get("labelSelector"), r.query.Get("fieldSelector")}, " ")
}

// selection returns the selection of a list or a watch.
func (r *request) selection(place *served) (selection, error) {
	made := selection{place: place, namespace: r.key.Namespace}
	var err error
	if made.labels, err = labels.Parse(r.query.Get("labelSelector")); err != nil {
		return made, apierrors.NewBadRequest(err.Error())
	}
	if made.fields, err = fields.ParseSelector(r.query.Get("fieldSelector")); err != nil {
		return made, apierrors.NewBadRequest(err.Error())
	}
	for _, wanted := range made.fields.Requirements() {
		if wanted.Field != "metadata.name" && wanted.Field != "metadata.namespace" {
			return made, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s; the fake API server supports metadata.name and metadata.namespace", wanted.Field))
		}
	}
	return made, nil
}

// number parses a number in the query. It returns 0 if the parameter is missing.
func (r *request) number(name string) (uint64, error) {
	text := r.query.Get(name)
	if text == "" {
		return 0, nil
	}
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid %s %q: %v", name, text, err))
	}
	return number, nil
}

// form is the form in which a client gets objects.
type form struct{ metadataOnly, unversioned bool }

// accepted returns the first form in an Accept header that the server supports.
func accepted(headers []string) (form, bool) {
	wanted := strings.Join(headers, ",")
	if wanted == "" {
		return form{}, true
	}
	for _, one := range strings.Split(wanted, ",") {
		media, parameters, err := mime.ParseMediaType(one)
		if err != nil || media != runtime.ContentTypeJSON && media != "application/*" && media != "*/*" {
			continue
		}
		switch parameters["as"] {
		case "":
			return form{}, true
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return form{metadataOnly: true}, true
		}
	}
	return form{}, false
}

// of returns an object in the form.
func (f form) of(object *unstructured.Unstructured) *unstructured.Unstructured {
	if f.metadataOnly {
		partial := &unstructured.Unstructured{Object: map[string]any{"metadata": object.Object["metadata"]}}
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		object = partial
	}
	if f.unversioned {
		object = object.DeepCopy()
		object.SetResourceVersion("")
	}
	return object
}

// list returns a list in the form.
func (f form) list(place *served, version uint64, next string, items []*unstructured.Unstructured) map[string]any {
	kind := place.kind.GroupVersion().WithKind(place.kind.Kind + "List")
	if f.metadataOnly {
		kind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	metadata := map[string]any{}
	if !f.unversioned {
		metadata["resourceVersion"] = strconv.FormatUint(version, 10)
	}
	if next != "" {
		metadata["continue"] = next
	}
	shown := make([]any, len(items))
	for i, item := range items {
		if f == (form{}) {
			shown[i] = place.text(item)
		} else {
			shown[i] = f.of(item).Object
		}
	}
	return map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": metadata, "items": shown}
}
