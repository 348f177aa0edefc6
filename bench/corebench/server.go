package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/bellerophon-io/bellerophon/sources"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// server is the fake API server. It supports WatchList, which the Reflector of both sides
// requests, and lists that hold only their version.
type server struct{ feeds map[string]*served } // by resource

type served struct {
	*feed
	contentType string
	objects     *decodedObjects // the objects of a decoded feed; nil for others
}

// RoundTrip answers a request.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	feed, known := s.feeds[path.Base(request.URL.Path)]
	if !known {
		return nil, fmt.Errorf("the fake API server does not serve %s", request.URL.Path)
	}
	if request.URL.Query().Get("watch") == "" {
		return answer(request, runtime.ContentTypeJSON, feed.list())
	}
	if request.URL.Query().Get("sendInitialEvents") != "true" || feed.watched.Swap(true) {
		return nil, fmt.Errorf("the fake API server serves one WatchList for each kind, not %s", request.URL)
	}
	return answer(request, feed.contentType, feed.open(request.Context()))
}

func answer(request *http.Request, contentType string, body io.ReadCloser) (*http.Response, error) {
	return &http.Response{
		Request: request, StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1,
	}, nil
}

// list returns a list that holds only its version.
func (f *served) list() io.ReadCloser {
	kind := f.script.kind
	encoded, err := json.Marshal(metav1.List{
		TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind + "List"},
		ListMeta: metav1.ListMeta{ResourceVersion: versionOf(f.script.keys)},
	})
	if err != nil {
		panic(err) // Marshal fails only for types without a JSON form.
	}
	return io.NopCloser(strings.NewReader(string(encoded)))
}

// client returns a REST client of the server for one kind. It is the real client, except that it
// can decode decoded feeds.
func (s *server) client(scheme *runtime.Scheme, kind sources.Kind) (*rest.RESTClient, error) {
	version := kind.GroupVersion()
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.NewRESTClient(&url.URL{Scheme: "http", Host: "fake"}, path.Join("apis", version.Group, version.Version), rest.ClientContentConfig{
		ContentType:  runtime.ContentTypeJSON,
		GroupVersion: version,
		Negotiator: numbers{
			ClientNegotiator: runtime.NewClientNegotiator(codecs, version),
			objects:          s.feeds[kind.Resource()].objects,
		},
	}, nil, &http.Client{Transport: s})
}
