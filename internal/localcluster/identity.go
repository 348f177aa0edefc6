package localcluster

import (
	"fmt"
	"net"
)

const (
	serviceRange = "10.96.0.0/16"
	podRange     = "10.244.0.0/16"
	// serviceAddress is the first address of serviceRange. The Service "kubernetes" gets it.
	serviceAddress = "10.96.0.1"

	// kwokUser is the user name of kwok at the API server. allowKwok grants its permissions.
	kwokUser = "bellerophon:kwok"

	// The users of a real node. allowNode grants their permissions.
	kubeletClient = "bellerophon:kubelet-client"
	dnsUser       = "bellerophon:coredns"
	volumesUser   = "bellerophon:local-volumes"
)

// identities holds the certificates of all components and users. etcd has its own authority, so
// that no user of the API server can bypass the API server.
type identities struct {
	ca        []byte
	admin     keyPair
	clients   map[string]keyPair // of the API server, by the name of their kubeconfig file
	etcdCA    []byte
	files     map[string]keyPair // written as <name>.crt and <name>.key
	signerKey []byte             // signs service account tokens
}

func newIdentities(nodes Nodes) (*identities, error) {
	cluster, err := newAuthority("bellerophon-cluster")
	if err != nil {
		return nil, err
	}
	etcd, err := newAuthority("bellerophon-etcd")
	if err != nil {
		return nil, err
	}
	ids := &identities{ca: cluster.pem, etcdCA: etcd.pem, clients: map[string]keyPair{}, files: map[string]keyPair{}}
	if ids.admin, err = cluster.client("bellerophon:admin", "system:masters"); err != nil {
		return nil, err
	}
	users := map[string]string{
		"kube-controller-manager": "system:kube-controller-manager",
		"kube-scheduler":          "system:kube-scheduler",
	}
	if nodes == RealNode {
		users["kube-proxy"] = "system:kube-proxy"
		users["coredns"] = dnsUser
		users["local-volumes"] = volumesUser
		if err := ids.addNode(cluster); err != nil {
			return nil, err
		}
	} else {
		users["kwok"] = kwokUser
	}
	for file, user := range users {
		if ids.clients[file], err = cluster.client(user); err != nil {
			return nil, err
		}
	}
	apiNames := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if ids.files["kube-apiserver"], err = cluster.server("kube-apiserver", apiNames, net.ParseIP(serviceAddress)); err != nil {
		return nil, err
	}
	if ids.files["etcd"], err = etcd.server("etcd", nil); err != nil {
		return nil, err
	}
	if ids.files["etcd-client"], err = etcd.client("kube-apiserver"); err != nil {
		return nil, err
	}
	if _, ids.signerKey, err = newKey(); err != nil {
		return nil, fmt.Errorf("create the key for service account tokens: %w", err)
	}
	return ids, nil
}

// addNode adds the identities of kubelet, and of the API server as a client of kubelet.
func (i *identities) addNode(cluster *authority) (err error) {
	if i.clients["kubelet"], err = cluster.client("system:node:"+nodeName, "system:nodes"); err != nil {
		return err
	}
	if i.files["kubelet"], err = cluster.server(nodeName, nil, net.ParseIP(nodeAddress)); err != nil {
		return err
	}
	i.files["kubelet-client"], err = cluster.client(kubeletClient)
	return err
}

// write writes every file that does not depend on ports into the directory.
func (i *identities) write(d *directory) error {
	files := map[string][]byte{"ca.crt": i.ca, "etcd-ca.crt": i.etcdCA, "service-accounts.key": i.signerKey}
	for name, pair := range i.files {
		files[name+".crt"] = pair.certificate
		files[name+".key"] = pair.key
	}
	for name, content := range files {
		if err := d.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes a kubeconfig file for each client of the API server, and "kubeconfig"
// for the administrator.
func (i *identities) writeKubeconfigs(d *directory, server string) error {
	files := map[string]keyPair{"kubeconfig": i.admin}
	for name, pair := range i.clients {
		files[name+".kubeconfig"] = pair
	}
	for name, pair := range files {
		content, err := kubeconfig(server, i.ca, pair)
		if err != nil {
			return err
		}
		if err := d.write(name, content); err != nil {
			return err
		}
	}
	return nil
}
