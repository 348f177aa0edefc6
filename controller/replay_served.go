package controller

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// answerAbout answers a question about resources. The recorded program may have asked for all groups at once, in the
// aggregated form of discovery. The answers about one group and one version then are a part of that answer. The sources of
// controller-runtime start at the same time, so chance decides whether its REST mapper also asks for the part.
func (r *replay) answerAbout(request *http.Request) *http.Response {
	path := request.URL.Path
	if known := r.served[path]; known != nil {
		return answered(request, http.StatusOK, cmp.Or(known.Type, runtime.ContentTypeJSON), known.Answer)
	}
	if part := r.partOf(path); part != nil {
		if encoded, err := json.Marshal(part); err == nil {
			return answered(request, http.StatusOK, runtime.ContentTypeJSON, encoded)
		}
	}
	return notFoundAnswer(request)
}

// isAggregated reports whether an answer is about groups with all their resources. of may be nil.
func isAggregated(of *recording.Served) bool {
	if of == nil {
		return false
	}
	_, parameters, err := mime.ParseMediaType(of.Type)
	return err == nil && parameters["as"] == "APIGroupDiscoveryList"
}

// partOf returns what an aggregated answer of the recording says about the group or the version at a path. Otherwise it
// returns nil.
func (r *replay) partOf(path string) any {
	root, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	whole := r.served["/"+root]
	if !isAggregated(whole) {
		return nil
	}
	var aggregated apidiscovery.APIGroupDiscoveryList
	if json.Unmarshal(whole.Answer, &aggregated) != nil {
		return nil
	}
	groups, resources, _ := discovery.SplitGroupsAndResources(aggregated)
	of := schema.GroupVersion{Version: rest} // below /api, where the only group has no name
	if root == "apis" {
		of.Group, of.Version, _ = strings.Cut(rest, "/")
	}
	if of.Version != "" {
		if list := resources[of]; list != nil {
			list.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
			return list
		}
		return nil
	}
	for i := range groups.Groups {
		if group := &groups.Groups[i]; group.Name == of.Group {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return group
		}
	}
	return nil
}
