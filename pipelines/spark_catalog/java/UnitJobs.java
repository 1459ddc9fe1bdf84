package penstock.spark;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/** Runs jobs of the session for the Python process that answers a request: it plans and commits, tasks do the work. */
class UnitJobs implements Runnable {
    private final SparkSession session = SparkSession.active();
    private final String token;
    private final ServerSocket server;

    UnitJobs() {
        byte[] secret = new byte[16];
        new SecureRandom().nextBytes(secret);
        token = new java.math.BigInteger(1, secret).toString(16);
        try {
            server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        } catch (IOException refused) {
            throw new IllegalStateException(refused);
        }
    }

    /** Answers a request that may run jobs meanwhile. The jobs belong to the job group of the calling thread. */
    static com.fasterxml.jackson.databind.JsonNode answer(Request request) {
        UnitJobs jobs = new UnitJobs();
        try {
            request.asked.putObject("jobs").put("port", jobs.server.getLocalPort()).put("token", jobs.token)
                .put("slots", jobs.session.sparkContext().defaultParallelism());
            Thread thread = new Thread(jobs, "penstock-unit-jobs");
            thread.setDaemon(true);
            thread.start();
            return request.answer();
        } finally {
            jobs.close();
        }
    }

    public void run() {
        while (!server.isClosed()) {
            try {
                Socket socket = server.accept();
                try {
                    serve(new DataInputStream(socket.getInputStream()), new DataOutputStream(socket.getOutputStream()));
                } finally {
                    socket.close();
                }
            } catch (IOException ended) {
                // The request was answered, or the process that asked has ended: its own error says why.
            }
        }
    }

    private void serve(DataInputStream in, DataOutputStream out) throws IOException {
        byte[] given = in.readUTF().getBytes(StandardCharsets.UTF_8);
        if (!MessageDigest.isEqual(given, token.getBytes(StandardCharsets.UTF_8))) return;
        String units = in.readUTF();
        List rows;
        try {
            rows = session.read().format(Request.SOURCE).option("action-units", units).load().collectAsList();
        } catch (Throwable error) {
            out.writeInt(-1);
            write(out, String.valueOf(error.getMessage()).getBytes(StandardCharsets.UTF_8));
            return;
        }
        out.writeInt(rows.size());
        for (int i = 0; i < rows.size(); i++) write(out, (byte[]) ((Row) rows.get(i)).get(0));
        out.flush();
    }

    private static void write(DataOutputStream out, byte[] body) throws IOException {
        out.writeInt(body.length);
        out.write(body);
    }

    private void close() {
        try {
            server.close();
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }
}
