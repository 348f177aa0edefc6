package faultproxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A test server stands in for a real API server here.
func Example() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	defer server.Close()
	proxy, err := faultproxy.New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		panic(err)
	}
	defer proxy.Close()

	config := proxy.Config()
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		panic(err)
	}
	defer utilnet.CloseIdleConnectionsFor(connection.Transport)
	client, err := kubernetes.NewForConfigAndClient(config, connection)
	if err != nil {
		panic(err)
	}

	err = proxy.Inject(faultproxy.Fault{Action: faultproxy.Refuse, Code: http.StatusForbidden, Match: faultproxy.Match{Verb: "list", Resource: "configmaps"}})
	if err != nil {
		panic(err)
	}
	for range 2 {
		list, err := client.CoreV1().ConfigMaps("").List(context.Background(), metav1.ListOptions{})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("listed at", list.ResourceVersion)
	}
	fmt.Println(proxy.Counts().Faults)
	// Output:
	// refused by the test (list configmaps)
	// listed at 7
	// map[Refuse:1]
}
