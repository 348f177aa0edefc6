package localcluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the context, the cluster and the user in kubeconfig files.
const contextName = "bellerophon"

// kubeconfig returns the content of a kubeconfig file for one user of an API server.
func kubeconfig(server string, ca []byte, user keyPair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[contextName] = &clientcmdapi.AuthInfo{ClientCertificateData: user.certificate, ClientKeyData: user.key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode a kubeconfig: %w", err)
	}
	return content, nil
}

// restConfig returns the equivalent configuration for clients in this process. It sets no rate
// limit: a client on the same machine as the API server slows down with the API server.
func restConfig(server string, ca []byte, user keyPair) *rest.Config {
	return &rest.Config{
		Host:            server,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: user.certificate, KeyData: user.key},
		QPS:             -1,
	}
}
