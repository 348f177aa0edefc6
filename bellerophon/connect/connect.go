// Package connect finds the user's cluster and says in plain words what is wrong with
// it, and what to do.
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

// answerTimeout is how long a cluster may take to say its version.
const answerTimeout = 15 * time.Second

// Config reads a kubeconfig file. Without a path it is that of KUBECONFIG, then the
// ServiceAccount's in a pod, then the one in the home directory, as kubectl finds it.
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

// Check asks the cluster for its version, and whether it takes the credentials.
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

// Explain adds to an error of the API, or of the way to it, what to do about it.
func Explain(err error) error {
	var request *sources.RequestError
	var network *net.OpError
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) && errors.As(err, &request):
		return fmt.Errorf("the cluster does not know %s: install their CustomResourceDefinition, from charts/bellerophon-operator/crds; waiting for it", request.Kind.GroupVersionKind.GroupVersion().WithResource(request.Kind.Resource).GroupResource())
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: the cluster does not accept the credentials; they may have expired: renew them in the kubeconfig", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: RBAC does not allow it; grant it, as the chart's role does (charts/bellerophon-operator)", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the kubeconfig's certificate authority is not that of this cluster", err)
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no cluster answers there; is it running, and is the kubeconfig's server address right?", err)
	}
	return err
}
