// Package connect finds the user's cluster, and explains errors of its API with a way out.
package connect

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/sources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// answerTimeout bounds the request for the cluster's version.
const answerTimeout = 15 * time.Second

// Config reads the kubeconfig file at path. If path is empty, Config uses the file that KUBECONFIG
// names. Without one, it uses the ServiceAccount of a pod, then the file in the home directory, as kubectl does.
func Config(path string) (*rest.Config, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig %s: %w; name a file that exists with --kubeconfig", path, err)
		}
	} else if os.Getenv("KUBECONFIG") == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster is configured: %w; name a kubeconfig file with --kubeconfig or KUBECONFIG", err)
	}
	config.QPS = -1
	return config, nil
}

// Namespace returns the namespace that a kubeconfig file names for its current context, or "default". path is as in
// [Config].
func Namespace(path string) string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).Namespace()
	if err != nil || namespace == "" {
		return "default"
	}
	return namespace
}

// Check returns the version of the cluster. It fails if the cluster does not accept the
// credentials.
func Check(ctx context.Context, config *rest.Config) (version string, err error) {
	config = rest.CopyConfig(config)
	config.Timeout = answerTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	answer, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", Explain(fmt.Errorf("asking %s for its version: %w", config.Host, err))
	}
	var info apimachineryversion.Info
	if err := json.Unmarshal(answer, &info); err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", config.Host, err)
	}
	return info.GitVersion, nil
}

// Explain adds a way out to an error of the API or of the connection to it.
func Explain(err error) error {
	var request *sources.RequestError
	var network *net.OpError
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) && errors.As(err, &request):
		return fmt.Errorf("the cluster does not serve %s: install the CustomResourceDefinition from charts/bellerophon-operator/crds; waiting for it", request.Kind.GroupVersionKind.GroupVersion().WithResource(request.Kind.Resource()).GroupResource())
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: the cluster does not accept the credentials; they may have expired: renew them in the kubeconfig", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: RBAC does not allow it; grant the permission, as the role of the chart does (charts/bellerophon-operator)", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the certificate authority in the kubeconfig does not match this cluster; give the cluster's own", err)
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no cluster answers there; is it running, and is the kubeconfig's server address right?", err)
	}
	return err
}
