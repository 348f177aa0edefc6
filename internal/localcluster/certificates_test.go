package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
)

func TestCertificatesServeTheirPurposeAndNoOther(t *testing.T) {
	ids, err := newIdentities(SimulatedNode)
	if err != nil {
		t.Fatal(err)
	}
	client, server := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	for _, test := range []struct {
		what  string
		pair  keyPair
		ca    []byte
		usage x509.ExtKeyUsage
		host  string
		valid bool
	}{
		{"the administrator as a client", ids.admin, ids.ca, client, "", true},
		{"the administrator as a server", ids.admin, ids.ca, server, "", false},
		{"the administrator as a client of etcd", ids.admin, ids.etcdCA, client, "", false},
		{"the API server as a client of etcd", ids.files["etcd-client"], ids.etcdCA, client, "", true},
		{"the API server on loopback", ids.files["kube-apiserver"], ids.ca, server, loopback, true},
		{"the API server as its Service", ids.files["kube-apiserver"], ids.ca, server, "kubernetes.default.svc", true},
		{"the API server at its Service's address", ids.files["kube-apiserver"], ids.ca, server, serviceAddress, true},
		{"the API server elsewhere", ids.files["kube-apiserver"], ids.ca, server, "10.1.2.3", false},
		{"etcd on loopback", ids.files["etcd"], ids.etcdCA, server, loopback, true},
	} {
		pair, err := tls.X509KeyPair(test.pair.certificate, test.pair.key)
		if err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(test.ca)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage}})
		if (err == nil) != test.valid {
			t.Errorf("%s: %v, want valid: %v", test.what, err, test.valid)
		}
	}
	admin, err := tls.X509KeyPair(ids.admin.certificate, ids.admin.key)
	if err != nil {
		t.Fatal(err)
	}
	if groups := admin.Leaf.Subject.Organization; !slices.Equal(groups, []string{"system:masters"}) {
		t.Errorf("the administrator's groups are %v, want system:masters", groups)
	}
}
