package controller

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// replayTransport answers requests with what a recording has.
type replayTransport struct{ replay *replay }

// IsReplay reports whether a configuration is the one that a [Replay] or [Shadow] gives to its [Setup].
func IsReplay(config *rest.Config) bool {
	_, is := config.Transport.(replayTransport)
	return is
}

// errNotRecorded is the error of a request that belongs to no attempt.
var errNotRecorded = errors.New("the request belongs to no attempt, and a replay sends none")

// RoundTrip answers a request of an attempt when its answer is due. A request that the recording does not have is a
// difference. A write of this kind is answered as by a server that accepts it.
func (t replayTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && aboutResources.MatchString(request.URL.Path) {
		return t.replay.answerAbout(request), nil
	}
	ctx := request.Context()
	attempt, _ := ctx.Value(replayedKey{}).(*replayedAttempt)
	if attempt == nil {
		return nil, errNotRecorded
	}
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	of := t.replay.match(attempt, request, body)
	if of == nil {
		return t.replay.invent(request, body), nil
	}
	select {
	case <-of.due:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if of.Code == 0 {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errors.New(of.Err)
	}
	made := answered(request, of.Code, of.AnswerType, of.Answer)
	if of.Err == "" {
		t.replay.learn(request.URL.Path, of.Exchange)
	} else { // The answer broke off.
		made.ContentLength = -1
		made.Body = io.NopCloser(io.MultiReader(bytes.NewReader(of.Answer), failing{errors.New(of.Err)}))
	}
	if of.RetryAfter != "" {
		made.Header.Set("Retry-After", of.RetryAfter)
	}
	return made, nil
}

// failing is a reader that fails at once.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func answered(request *http.Request, code int, contentType string, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}
}

func notFoundAnswer(request *http.Request) *http.Response {
	status, _ := json.Marshal(metav1.Status{ // A status is always valid.
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Reason: metav1.StatusReasonNotFound, Message: request.URL.Path + " is not in the recording",
	})
	return answered(request, http.StatusNotFound, runtime.ContentTypeJSON, status)
}

// match returns the recorded request that an attempt makes again, or nil. Requests of one attempt may be concurrent, so
// their order is not compared; requests with one method and URL keep theirs, except for creations of several objects.
func (r *replay) match(attempt *replayedAttempt, request *http.Request, body []byte) *replayedExchange {
	attempt.mu.Lock()
	defer attempt.mu.Unlock()
	attempt.requests = append(attempt.requests, request.Method+" "+request.URL.RequestURI())
	var found []*replayedExchange
	for _, known := range attempt.exchanges {
		if !known.sent && known.Method == request.Method && known.URL == request.URL.RequestURI() {
			found = append(found, known)
		}
	}
	if len(found) == 0 {
		attempt.differences = append(attempt.differences, "+ "+describeRequest(request.Method, request.URL.RequestURI(), body))
		return nil
	}
	media, known := request.Header.Get("Content-Type"), found[0]
	if request.Method == http.MethodPost && len(found) > 1 {
		name := r.nameIn(body, media)
		if i := slices.IndexFunc(found, func(of *replayedExchange) bool { return r.nameIn(of.Body, of.ContentType) == name }); i >= 0 {
			known = found[i]
		}
	}
	if known.sent = true; bytes.Equal(known.Body, body) {
		return known
	}
	wanted, _ := asJSON(known.Body, known.ContentType, r.codec)
	given, _ := asJSON(body, media, r.codec)
	if lines := differ(wanted, given, concernsSecrets(known.URL)); len(lines) > 0 {
		attempt.differences = append(attempt.differences, request.Method+" "+known.URL)
		attempt.differences = append(attempt.differences, lines...)
	}
	return known
}

// nameIn returns the name of the object in a body. The URL of a creation does not have it.
func (r *replay) nameIn(body []byte, contentType string) string {
	var object metav1.PartialObjectMetadata
	encoded, _ := asJSON(body, contentType, r.codec)
	if json.Unmarshal(encoded, &object) != nil {
		return ""
	}
	return object.Name
}

// describeRequest describes a request in one line.
func describeRequest(method, url string, body []byte) string {
	const most = 300
	text := method + " " + url
	if len(body) > 0 && json.Valid(body) && !concernsSecrets(url) {
		text += " " + string(body)
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// learn remembers the object of an answer, or that it is deleted.
func (r *replay) learn(path string, of *recording.Exchange) {
	if of.Code < 200 || of.Code > 299 || strings.HasSuffix(path, "/scale") { // A Scale is not the object.
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path = objectPath(path)
	if of.Method == http.MethodDelete {
		delete(r.latest, path)
		return
	}
	if name := r.nameIn(of.Answer, of.AnswerType); of.Method == http.MethodPost && name != "" {
		path += "/" + name
	}
	r.latest[path] = latest{of.Answer, of.AnswerType}
}

// latest is the last answer with an object.
type latest struct {
	body        []byte
	contentType string
}

// objectPath returns the path of an object, without a subresource of its status or scale.
func objectPath(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, "/status"), "/scale")
}

// invent answers a request that is not in the recording, as a server would that accepts every write.
func (r *replay) invent(request *http.Request, body []byte) *http.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := objectPath(request.URL.Path)
	known, _ := asJSON(r.latest[path].body, r.latest[path].contentType, r.codec)
	media := request.Header.Get("Content-Type")
	given, _ := asJSON(body, media, r.codec)
	switch request.Method {
	case http.MethodDelete:
		delete(r.latest, path)
		return answered(request, http.StatusOK, runtime.ContentTypeJSON, []byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	case http.MethodGet:
		if known == nil {
			return notFoundAnswer(request)
		}
		return answered(request, http.StatusOK, runtime.ContentTypeJSON, known)
	case http.MethodPatch:
		if known == nil {
			known = []byte(`{}`)
		}
		if patched, err := patched(known, given, media); err == nil {
			given = patched
		}
	}
	var object map[string]any
	if json.Unmarshal(given, &object) != nil {
		return notFoundAnswer(request)
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	if metadata["name"] == nil && request.Method != http.MethodPost {
		metadata["name"] = path[strings.LastIndex(path, "/")+1:]
	}
	if prefix, has := metadata["generateName"].(string); has && metadata["name"] == nil {
		metadata["name"] = prefix + "replay" + fmt.Sprint(len(r.latest))
	}
	metadata["resourceVersion"] = fmt.Sprint(nextVersion(metadata["resourceVersion"]))
	if metadata["uid"] == nil {
		metadata["uid"] = "replay-" + fmt.Sprint(metadata["name"])
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return notFoundAnswer(request)
	}
	if name, named := metadata["name"].(string); named && request.Method == http.MethodPost {
		path += "/" + name
	}
	r.latest[path] = latest{encoded, runtime.ContentTypeJSON}
	code := http.StatusOK
	if request.Method == http.MethodPost {
		code = http.StatusCreated
	}
	return answered(request, code, runtime.ContentTypeJSON, encoded)
}

// patched applies a patch to an object. A strategic merge patch counts as a merge patch.
func patched(object, patch []byte, contentType string) ([]byte, error) {
	if media, _, _ := mime.ParseMediaType(contentType); media != string(types.JSONPatchType) {
		return jsonpatch.MergePatch(object, patch)
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return decoded.Apply(object)
}

// nextVersion returns the version after one.
func nextVersion(of any) int64 {
	var version int64
	_, _ = fmt.Sscan(fmt.Sprint(of), &version) // An object without a version gets the first one.
	return version + 1
}
